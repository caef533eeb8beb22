"""Functions that torch calls in each pass of a trained model, with what is in it: forward hooks and hooks of gradients.

They see a rank's own samples, and gradients before the ranks have averaged them: one that cuts or scales gradients, or
keeps what it sees, does otherwise than in one process. Where forward passes are shared, gradients of parameters are
whole when hooks see them.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Decisions, Link
from distify_codemods.decisions.touching import parts_of
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.libraries import torch_nn
from distify_codemods.naming import brief
from distify_codemods.objects import External
from distify_codemods.settled import is_module


def links(decisions: Decisions) -> Iterator[Link]:
    facts = decisions.facts
    trained = {part for model in facts.models for part in parts_of(model)}
    last = max((event.number for event in facts.backwards), default=0)
    turns = {node for event in facts.backwards for node in event.turns}
    for event in facts.of_kind(Kind.METHOD, Kind.CALL, Kind.ATTRIBUTE) if facts.training_loops else ():
        puts = event.name.startswith(torch_nn.HOOKS_OF_ALL) if event.kind is Kind.CALL else event.name in torch_nn.HOOKS
        node = _call_of_unknown(event) if event.kind is Kind.ATTRIBUTE else event.node
        if node is None or not puts or (event.number > last and event.turns.isdisjoint(turns)):
            continue
        if not _is_gone(facts, event) and not _is_of_another(event, trained):
            yield Link(
                event.module, node,
                f"`{brief(node)}` has a function called in each pass, which would see a rank's own samples, or "
                "gradients that are not averaged yet",
                "a hook that is removed before training, or work that is done in the loop, is no obstacle",
            )  # fmt: skip


def _call_of_unknown(event: Event) -> cst.Call | None:
    """`part.register_hook(f)`, where it is not known what `part` is: nothing else is told of such a call."""
    called = event.module.parents.get(event.node)
    return called if isinstance(called, cst.Call) and called.func is event.node and not event.receiver.objs else None


def _is_of_another(event: Event, trained: Set[Obj]) -> bool:
    """Whether it is put on a module that is known, and no part of what is trained: a frozen teacher."""
    owners = [core(obj) for obj in event.receiver.objs]
    return bool(owners) and all(is_module(one) and trained.isdisjoint(_with_wholes(one)) for one in owners)


def _with_wholes(obj: Obj) -> Iterator[Obj]:
    """A module, and what it is a part of: one of those that `model.named_modules()` gives."""
    one: Obj | None = obj
    while one is not None:
        yield core(one)
        one = one.whole if isinstance(one, External) else None


def _is_gone(facts: Facts, hook: Event) -> bool:
    """Whether it is removed before training begins, or behind the steps of the turn that puts it there."""
    begins = min((loop.event for loop in facts.training_loops), key=lambda event: event.number)
    behind = hook.number > max(event.number for event in facts.backwards)
    removed = (
        event for event in facts.of_kind(Kind.METHOD) if event.name == "remove"
        and (event.before(begins) or (behind and hook.before(event) and hook.turns <= event.turns))
    )  # fmt: skip
    return any(not event.receiver.objs.isdisjoint(hook.value.objs) for event in removed)
