"""Models that training calls and does not train: a frozen backbone, a teacher, the network of a perceptual loss.

They cost a forward pass of the whole batch, which ranks can share, too. In evaluation mode each sample is computed by
itself, and nothing is kept of it. What is not seen to be in that mode may keep something from call to call; there every
rank computes the whole batch.
"""

from __future__ import annotations

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Blocked
from distify_codemods.decisions.modes import evaluates_for_good
from distify_codemods.decisions.touching import parts_of
from distify_codemods.decisions.training_calls import Called, each_called, entries_into
from distify_codemods.events import Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.libraries import python
from distify_codemods.objects import External, Instance
from distify_codemods.parameters import has_parameters_for_sure, may_be_a_module
from distify_codemods.settled import is_module


def called_in_steps(facts: Facts, trained: list[Called]) -> tuple[list[Called], list[Blocked]]:
    """Those whose forward passes can be shared; and why others cannot. `trained`: what is shared anyway."""
    optimized = [model for optimizer in facts.optimizers for model in optimizer.models]
    known = {part for model in (*optimized, *(one.model for one in trained)) for part in parts_of(model)}
    copies = {event.node for event in facts.calls(python.DEEP_COPY)}  # to the analysis, their parts are the original's
    models = [
        model for model in _candidates(facts)
        if model not in known and (model.site in copies or not known.intersection(parts_of(model)))
    ]  # fmt: skip
    inner = {part for model in models for part in parts_of(model)[1:]}
    owners: dict[Obj, Obj] = {}
    for model in models:
        if model not in inner:
            owners.update(dict.fromkeys(parts_of(model), model))
    shared = _shared_as_a_whole(facts, known)
    entries = [
        one for one in entries_into(facts, owners, Facts.in_training)
        if shared.isdisjoint(one.event.here.frame.context) and (one.obj is owners[one.obj] or one.obj not in known)
    ]  # fmt: skip
    found = each_called(entries, owners)
    kept = [one for one in found if evaluates_for_good(facts, one.model, one.first, one.held)]
    told = (one for one in found if one not in kept and not any(core(obj) in known for obj in one.first.receiver.objs))
    return kept, [_computed_whole(facts, one) for one in told]


def _candidates(facts: Facts) -> list[Obj]:
    """Modules with parameters, as far as that is seen."""
    called = (core(obj) for event in facts.of_kind(Kind.FORWARD, Kind.METHOD, Kind.OWN) for obj in event.receiver.objs)
    asked = facts.run.machine.modules
    return [
        obj for obj in dict.fromkeys(called)
        if isinstance(obj, (Instance, External)) and (is_module(obj) or obj in asked) and may_be_a_module(obj)
        and has_parameters_for_sure(obj)
    ]  # fmt: skip


def _shared_as_a_whole(facts: Facts, known: set[Obj]) -> set[cst.CSTNode]:
    """The calls of trained models: what happens in their course is shared with them."""
    calls = facts.of_kind(Kind.FORWARD, Kind.OWN)
    return {one.node for one in calls if any(core(obj) in known for obj in one.receiver.objs)}


def _computed_whole(facts: Facts, one: Called) -> Blocked:
    name = facts.names.of(one.held)
    return Blocked(
        "SHARE01", one.first.module, one.first.node,
        f"`{name}` is called in training and not trained, and it is not seen to be in evaluation mode for good: every "
        "rank computes all of it",
        f"if that is meant, call `{name}.eval()` before training",
    )  # fmt: skip
