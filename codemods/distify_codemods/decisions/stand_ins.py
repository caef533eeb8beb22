"""What an evaluation is called with in the place of a trained model: a teacher, an average, a function."""

from __future__ import annotations

from collections.abc import Sequence

from distify_codemods.allocation import Obj
from distify_codemods.events import Event, Kind
from distify_codemods.facts import BatchLoop, Facts
from distify_codemods.inside import core
from distify_codemods.libraries import torch_nn
from distify_codemods.objects import External


def evaluated(facts: Facts, loop: BatchLoop) -> Sequence[Event]:
    """The calls of the models that a loop evaluates: of trained ones, or, where there are none, of any but losses."""
    return loop.forwards or [
        event for event in facts.of_kind(Kind.FORWARD)
        if event.inside(loop.event) and not facts.in_a_model(event) and not all(map(_is_loss, event.receiver.objs))
    ]  # fmt: skip


def may_differ(facts: Facts, loop: BatchLoop) -> bool:
    """Whether each rank may have another of them. Trained ones are alike, and what was made before ranks drew apart."""
    if loop.forwards:
        return False
    first = min((one.event.number for one in facts.training_loops), default=0)
    made = {event.node: event for event in facts.of_kind(Kind.CALL)}  # the last of each place
    models = {core(obj) for event in evaluated(facts, loop) for obj in event.receiver.objs}
    events = [made.get(model.site) if model.site is not None else None for model in models]
    return any(event is None or event.number > first or bool(event.here.loops) for event in events)


def _is_loss(obj: Obj) -> bool:
    return isinstance(obj, External) and torch_nn.is_loss(obj.name)
