"""Models that training calls and does not train: teachers, targets, copies that follow by a moving average.

No wrap concerns them. But in training mode their BatchNorm looks at the batch, of which a rank has a share.
"""

from __future__ import annotations

from collections.abc import Iterator

from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Blocked, Broadcast
from distify_codemods.decisions.broadcasts import places_of
from distify_codemods.decisions.modes import evaluates_for_good
from distify_codemods.decisions.touching import parts_of
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, dealt_by
from distify_codemods.inside import core
from distify_codemods.libraries.python import COPIES
from distify_codemods.libraries.torch_nn import BATCHNORMS, may_hold_batchnorm
from distify_codemods.objects import External, Instance
from distify_codemods.parameters import may_be_a_module

_WHY = "this model is not trained, and its BatchNorm would see one rank's share of the batch"
_FIX = "write `rt.convert_sync_batchnorm(model)` where it is made"


def decide_bystanders(facts: Facts) -> tuple[tuple[Broadcast, ...], list[Blocked]]:
    """Where the BatchNorm of each is put on the statistics of all ranks; only that is done to them."""
    found: dict[tuple[object, str], Broadcast] = {}
    blocked: list[Blocked] = []
    for model, forward in _called(facts).items():
        place = next(places_of(facts, model, model, forward, True), None)
        if place is not None:
            found.setdefault((place.statement, place.target), place)
        else:
            blocked.append(Blocked("MODEL02", forward.module, forward.node, _WHY, _FIX))
    return tuple(found.values()), blocked


def _called(facts: Facts) -> dict[Obj, Event]:
    """The outermost ones, each with its first call on a training batch."""
    trained = {part for model in facts.models for part in parts_of(model)}
    found: dict[Obj, Event] = {}
    for event in _on_training_batches(facts):
        for obj in event.receiver.objs:
            if core(obj) not in trained and may_be_a_module(core(obj)):
                found.setdefault(core(obj), event)
    inner = {part for model in found for part in parts_of(model)[1:]}
    return {
        model: event
        for model, event in found.items()
        if model not in inner and _may_have_batchnorm(model) and not evaluates_for_good(facts, model, event)
    }


def _on_training_batches(facts: Facts) -> Iterator[Event]:
    for event in facts.of_kind(Kind.FORWARD):
        if facts.in_training(event) and any(dealt_by(one.sources) for one in event.arguments.all()):
            yield event


def _may_have_batchnorm(model: Obj) -> bool:
    if not isinstance(model, (Instance, External)):
        return False
    return any(
        (isinstance(part, External) and (may_hold_batchnorm(part.name) or part.name.startswith(COPIES)))
        or (isinstance(part, Instance) and part.of is not None and part.of.derives_from(*BATCHNORMS))
        for part in parts_of(model)
    )
