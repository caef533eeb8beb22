"""Tables of zeros that a turn makes and fills at places that its own samples say: counts by class, sums by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.events import Here
from distify_codemods.interpreter import state
from distify_codemods.libraries import torch_data
from distify_codemods.origins import Counter, Zero
from distify_codemods.scale import Scale
from distify_codemods.values import Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def filled(machine: Machine, place: cst.BaseExpression, by: Value, value: Value, *, adds: bool) -> None:
    """Something is written into the table at `place`, where and as `by` says; adds: beside what is there, so that all
    of it is a sum."""
    known = machine.frame.env.get(place.value) if isinstance(place, cst.Name) else None
    if known is None or not isinstance(place, cst.Name) or known.scale not in (Scale.CONST, Scale.SUM):
        return
    counts = any(isinstance(obj, Counter) for obj in by.objs)
    table = all(isinstance(obj, Zero) for obj in known.objs)
    if table and not counts and state.of_a_share(by, torch_data.LOADERS) and _is_of_this_turn(machine, place):
        scale = Scale.SUM if adds else Scale.COUPLED
        sources = known.sources | join(by, value).sources
        machine.bind(place.value, Value(known.objs, scale, sources, dims=known.dims))


def _is_of_this_turn(machine: Machine, place: cst.Name) -> bool:
    """Whether no loop that takes batches lies between where it was made and here."""
    module = machine.frame.module
    made = module.flow(place).reaching(place) if place in module.parents else []
    if not made or any(isinstance(one, cst.Param) for one in made):
        return False
    between = set[cst.CSTNode]()
    for here in machine.here.up():
        if here.frame is not machine.frame:
            break
        between.add(here.node)
    taking = between.intersection(_taking(event.here) for event in machine.draws)
    return all(taking.issubset(module.enclosing(one)) for one in made)


def _taking(draw: Here) -> cst.CSTNode | None:
    """The loop that takes a batch."""
    return draw.loops[0].node if draw.loops else None
