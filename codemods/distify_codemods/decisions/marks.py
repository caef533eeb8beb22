"""What training's losses depend on, as a run says that marks values with it."""

from __future__ import annotations

from typing import TypeVar

from distify_codemods.allocation import Obj
from distify_codemods.facts import Facts, follow
from distify_codemods.interpreter import Trial

Mark = TypeVar("Mark", bound=Obj)


def marks(facts: Facts, kind: type[Mark]) -> list[Mark]:
    """Those of what training's backward passes begin at."""
    losses = [event.receiver for event in facts.backwards if facts.in_training(event)]
    losses += [event.value for event in facts.steps if event.arguments.all()]  # of closures
    found = {source for value in losses for source in value.sources if isinstance(source, kind)}
    return sorted(found, key=lambda one: one.number)


def with_evidence(facts: Facts) -> Facts:
    """The facts of the program, whose values tell what unknown things had a part in them."""
    return facts.tried(drop_data_parallel=True, evidence=True, hooks=())


def as_it_stands(facts: Facts) -> Facts:
    """The same, without what a conversion would gather, average or sum up."""
    return follow(facts.program, Trial(drop_data_parallel=True, evidence=True, cutting=facts.run.trial.cutting))
