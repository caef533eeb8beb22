"""Functions that torch calls in each pass of a trained model, with what is in it: forward hooks and hooks of gradients.

They see a rank's own samples, and gradients before the ranks have averaged them: one that cuts or scales gradients, or
keeps what it sees, does otherwise than in one process. Where forward passes are shared, gradients of parameters are
whole when hooks see them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Decisions, Link
from distify_codemods.decisions.touching import parts_of
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.libraries import torch_nn
from distify_codemods.naming import brief
from distify_codemods.settled import is_module


def links(decisions: Decisions) -> Iterator[Link]:
    facts = decisions.facts
    trained = {part for model in facts.models for part in parts_of(model)}
    last = max((event.number for event in facts.backwards), default=0)
    for event in facts.of_kind(Kind.METHOD, Kind.CALL) if facts.training_loops else ():
        hooks = (
            event.name in torch_nn.HOOKS if event.kind is Kind.METHOD else event.name.startswith(torch_nn.HOOKS_OF_ALL)
        )
        if hooks and event.number < last and not _is_gone(facts, event) and not _is_of_another(event, trained):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` has a function called in each pass, which would see a rank's own samples, or "
                "gradients that are not averaged yet",
                "a hook that is removed before training, or work that is done in the loop, is no obstacle",
            )  # fmt: skip


def _is_of_another(event: Event, trained: Collection[Obj]) -> bool:
    """Whether it is put on a module that is known, and no part of what is trained: a frozen teacher."""
    owners = [core(obj) for obj in event.receiver.objs]
    return bool(owners) and all(is_module(one) and one not in trained for one in owners)


def _is_gone(facts: Facts, hook: Event) -> bool:
    """Whether it is removed before training begins."""
    begins = min((loop.event for loop in facts.training_loops), key=lambda event: event.number)
    removed = (event for event in facts.of_kind(Kind.METHOD) if event.name == "remove" and event.before(begins))
    return any(not event.receiver.objs.isdisjoint(hook.value.objs) for event in removed)
