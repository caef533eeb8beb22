"""Tables that a turn makes and fills by its own samples: counts by class, sums by key, copies of what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import reads
from distify_codemods.origins import Zero
from distify_codemods.scale import Scale
from distify_codemods.values import Value

#: Numbers of a whole batch, and not of one sample; of a table, those that ranks can put together.
_OF_BATCHES = frozenset({Scale.MEAN, Scale.SUM, Scale.COUNT})
_ADDED_UP = frozenset({Scale.MEAN, Scale.SUM})

if TYPE_CHECKING:
    from distify_codemods.interpreter.frames import Frame
    from distify_codemods.interpreter.machine import Machine


def filled(
    machine: Machine,
    frame: Frame,
    table: cst.Name,
    known: Value,
    value: Value,
    *,
    own: bool,
    adds: bool,
    anywhere: bool,
) -> bool:
    """Whether `table` is one, into which `value` is written; `known`: what it has been, `own`: of samples already.

    adds: beside what is there, each time that a place is named. anywhere: where its samples say, so that it is a sum
    over samples, if it adds; else a table of zeros is made of sums, or of means.
    """
    if not all(isinstance(obj, Zero) for obj in known.objs):
        return False
    is_new = known.scale is Scale.CONST and not own
    is_begun = known.scale in _ADDED_UP and bool(known.objs)
    if not (is_new or is_begun) or not _is_of_this_turn(machine, frame, table):
        return False
    machine.tallied.add(table)
    scale = _scale(value.scale, adds, anywhere) if known.objs else Scale.COUPLED
    scale = scale if is_new or known.scale is scale else Scale.COUPLED
    now = Value(known.objs, scale, known.sources | value.sources, dims=known.dims)
    if frame is machine.frame:
        machine.bind(table.value, now)
    else:
        frame.env[table.value] = now
        reads.uncertain()
    return True


def _scale(written: Scale, adds: bool, anywhere: bool) -> Scale:
    """Of a table of zeros, once this is written into some of its places."""
    if anywhere:
        return Scale.SUM if adds and written not in _OF_BATCHES else Scale.COUPLED
    return {Scale.COUNT: Scale.SUM}.get(written, written) if written in _OF_BATCHES else Scale.COUPLED


def _is_of_this_turn(machine: Machine, frame: Frame, table: cst.Name) -> bool:
    """Whether it is made in a loop, and no loop that takes batches lies between where it was made and here."""
    module = frame.module
    made = module.flow(table).reaching(table) if table in module.parents else []
    if not made or any(isinstance(one, cst.Param) for one in made):
        return False
    loops = [here for here in machine.here.loops if here.frame is frame]
    around = any(here.frame is not frame for here in machine.here.loops)
    taking = {event.here.loops[0].node for event in machine.draws if event.here.loops}
    for one in made:
        outside = {here.node for here in loops}.difference(module.enclosing(one))
        if outside & taking or not (around or len(outside) < len(loops)):
            return False
    return True
