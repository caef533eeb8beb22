"""`try:` whose handler goes on: a rank that fails there leaves out what the others do, and ranks do not meet in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Event, Here
from distify_codemods.program import Module
from distify_codemods.rules.base import Context

#: What ends a run, or is no matter of one rank.
_FOR_ALL = frozenset("KeyboardInterrupt SystemExit ImportError ModuleNotFoundError GeneratorExit".split())


def outside(
    context: Context, event: Event, place: tuple[Module, cst.CSTNode], writes: list[Event]
) -> tuple[Module, cst.CSTNode] | None:
    """The place before an event, or before the attempts that it is in. None: one of these writes is in there, too."""
    for here in _around(event, place):
        if any(_holds(here, one) for one in context.facts.backwards):
            break  # ranks meet in there anyhow
        if any(_holds(here, one) for one in writes):
            return None
        place = here.frame.module, here.node
    return place


def beside(context: Context, event: Event, place: tuple[Module, cst.CSTNode], writes: Iterable[Event]) -> list[Event]:
    """Those of the writes that are in one of the attempts that the place is in."""
    around = [here for here in _around(event, place) if not any(_holds(here, one) for one in context.facts.backwards)]
    return [one for one in writes if any(_holds(here, one) for here in around)]


def _around(event: Event, place: tuple[Module, cst.CSTNode]) -> Iterator[Here]:
    """The attempts that the place is in, up to the event's outermost call."""
    passed = not any(here.node is place[1] and not here.arm for here in event.here.up())
    for here in event.here.up():
        passed = passed or (here.node is place[1] and not here.arm)
        if passed and isinstance(here.node, (cst.Try, cst.TryStar)) and _may_be_left_out(here):
            yield here


def is_in_one(event: Event) -> bool:
    """Whether the script goes on where this fails."""
    return is_within(event.here)


def is_within(place: Here) -> bool:
    """The same of a place."""
    return any(isinstance(here.node, (cst.Try, cst.TryStar)) and _may_be_left_out(here) for here in place.up())


def _holds(attempt: Here, event: Event) -> bool:
    return any(here.node is attempt.node and here.frame.context == attempt.frame.context for here in event.here.up())


def _may_be_left_out(here: Here) -> bool:
    if here.arm != "body":
        return here.arm.startswith("handler")
    assert isinstance(here.node, (cst.Try, cst.TryStar))
    return any(map(_goes_on, here.node.handlers))


def _goes_on(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> bool:
    return not tree.caught(handler) <= _FOR_ALL and not tree.raises_again(handler)
