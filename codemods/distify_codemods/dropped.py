"""Backward passes of which no step takes the gradients: for those of the inputs alone, as an attack on a model asks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.events import Event, Kind
from distify_codemods.inside import core
from distify_codemods.interpreter import Run


def dropped(
    run: Run, backwards: Sequence[Event], steps: Sequence[Event], models: Sequence[Obj], optimizers: Collection[Obj]
) -> set[Event]:
    """Those after which the gradients of the one model are set to zero before the next step, in whichever turn.

    A pass in whose turns a step is taken is training; so is one where it is not seen what becomes of its gradients.
    """
    named = (event for event in run.by_kind(Kind.METHOD) if event.name == "zero_grad")
    clears = [event for event in named if _is_of(event, models, optimizers)]
    if len(models) != 1 or not clears or not steps:
        return set()
    touched = sorted([*clears, *steps], key=lambda event: event.number)
    loops = [event for event in run.by_kind(Kind.LOOP) if isinstance(event.node, (cst.For, cst.While))]
    return {event for event in backwards if _is_dropped(event, touched, set(steps), loops)}


def _is_dropped(backward: Event, touched: Sequence[Event], steps: Collection[Event], loops: Sequence[Event]) -> bool:
    around = [loop for loop in loops if backward.inside(loop)]
    if not around or any(step.inside(around[-1]) for step in steps):
        return False
    turns = [[event for event in touched if event.inside(loop)] for loop in around]  # from the beginning of each
    return all(_begins_anew(events, steps) for events in (*turns, [one for one in touched if backward.before(one)]))


def _begins_anew(events: Sequence[Event], steps: Collection[Event]) -> bool:
    step = next((event for event in events if event in steps), None)
    return step is None or (events[0] is not step and events[0].dominates(step))


def _is_of(event: Event, models: Sequence[Obj], optimizers: Collection[Obj]) -> bool:
    objs = event.receiver.objs
    return bool(objs) and all(core(obj) in models or obj in optimizers for obj in objs)
