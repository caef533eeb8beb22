"""Where the conversion lets all ranks wait for each other, and for what that is enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import CallChain
from distify_codemods.events import Event
from distify_codemods.program import Module
from distify_codemods.records import dataclass

Conditions = frozenset[tuple[cst.CSTNode, str, CallChain]]


@dataclass(frozen=True)
class Barrier:
    """All ranks wait here, before an event."""

    event: Event
    place: cst.CSTNode
    loops: frozenset[cst.CSTNode]  # around the place
    conditions: Conditions  # that the place is under

    def serves(self, other: Event, written: list[Event], conditions: Conditions) -> bool:
        """Whether all that is written is there, whenever the other event happens, under its conditions."""
        if not (self.event is other or self.event.before(other)) or not self.conditions <= conditions:
            return False
        around = other.turns
        return self.loops <= around and all(
            write.before(self.event)
            and write.turns & around <= self.loops
            and all(here.node is not self.place for here in write.here.up())
            for write in written
        )


def serve(known: Iterable[Barrier], event: Event, written: list[Event]) -> bool:
    """Whether one of the barriers is enough for all that an event reads."""
    conditions = event.here.conditions()
    return any(one.serves(event, written, conditions) for one in known)


def before(event: Event, module: Module, place: cst.CSTNode) -> Barrier:
    """One at a place above an event."""
    here = next((here for here in event.here.up() if here.node is place and not here.arm), event.here)
    return Barrier(event, place, frozenset(loops_around(event, module, place)), here.conditions())


def loops_around(event: Event, module: Module, place: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The loops of an event that its place is inside of, too."""
    inside = {id(node) for node in tree.walk(place)}
    for here in event.loops():
        if here.frame.module is not module or id(here.node) not in inside:
            yield here.node
