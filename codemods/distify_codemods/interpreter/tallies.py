"""Tables that a turn makes and fills by its own samples: counts by class, sums by key, copies of what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import reads
from distify_codemods.origins import Zero
from distify_codemods.scale import Scale
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.frames import Frame
    from distify_codemods.interpreter.machine import Machine


def filled(machine: Machine, frame: Frame, table: cst.Name, value: Value, *, adds: bool) -> bool:
    """Whether `table` is one, into which something is written: what `value` is made of says where, or what.

    adds: beside what is there, so that all of it is a sum over samples.
    """
    known = frame.env.get(table.value)
    if known is None or known.scale not in (Scale.CONST, Scale.SUM) or not all(map(_is_zero, known.objs)):
        return False
    if not _is_of_this_turn(machine, frame, table):
        return False
    now = Value(known.objs, Scale.SUM if adds else Scale.COUPLED, known.sources | value.sources, dims=known.dims)
    if frame is machine.frame:
        machine.bind(table.value, now)
    else:
        frame.env[table.value] = now
        reads.uncertain()
    return True


def _is_zero(obj: object) -> bool:
    return isinstance(obj, Zero)


def _is_of_this_turn(machine: Machine, frame: Frame, table: cst.Name) -> bool:
    """Whether no loop that takes batches lies between where it was made and here."""
    module = frame.module
    made = module.flow(table).reaching(table) if table in module.parents else []
    if not made or any(isinstance(one, cst.Param) for one in made):
        return False
    between = {here.node for here in machine.here.up() if here.frame is frame}
    taking = [event.here.loops[0].node for event in machine.draws if event.here.loops]
    inside = between.intersection(taking)
    return all(inside.issubset(module.enclosing(one)) for one in made)
