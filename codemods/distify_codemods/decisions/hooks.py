"""Functions that torch calls in each pass of a trained model, with what is in it: forward hooks and hooks of gradients.

They see a rank's own samples, and gradients before the ranks have averaged them: one that cuts or scales gradients, or
keeps what it sees, does otherwise than in one process. Where forward passes are shared, gradients of parameters are
whole when hooks see them.
"""

from __future__ import annotations

from collections.abc import Iterator

from distify_codemods.decisions.base import Decisions, Link
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.libraries import torch_nn
from distify_codemods.naming import brief


def links(decisions: Decisions) -> Iterator[Link]:
    facts = decisions.facts
    if not facts.training_loops:
        return
    for event in facts.of_kind(Kind.METHOD):
        if event.name in torch_nn.HOOKS and not _is_gone(facts, event):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` has a function called in each pass, which would see a rank's own samples, or "
                "gradients that are not averaged yet",
                "a hook that is removed before training, or work that is done in the loop, is no obstacle",
            )  # fmt: skip


def _is_gone(facts: Facts, hook: Event) -> bool:
    """Whether it is removed before training begins."""
    begins = min((loop.event for loop in facts.training_loops), key=lambda event: event.number)
    removed = (event for event in facts.of_kind(Kind.METHOD) if event.name == "remove" and event.before(begins))
    return any(not event.receiver.objs.isdisjoint(hook.value.objs) for event in removed)
