"""Calls that are made again from the same place, in the next turn of a loop: what finds all as it was does the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distify_codemods.allocation import CallChain
from distify_codemods.events import Event
from distify_codemods.interpreter import pooling, summaries
from distify_codemods.interpreter.frames import Fresh
from distify_codemods.objects import Arguments, External
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.reads import NOW, Left, Reads, leave
from distify_codemods.records import dataclass
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: How much a call may change and still be held: to note what that is costs as much at each of its ends.
MOST_LEFT = 1_000


@dataclass(eq=False)
class Followed:
    """A call that was followed: what it was given and has read, and what came of it."""

    arguments: Arguments
    reads: Reads
    left: list[Left]
    value: Value
    traces: set[CallChain]
    drawn: Ordered[External]
    events: list[Event] | None
    fresh: Fresh
    size: int  # in statements

    def holds(self, machine: Machine, arguments: Arguments) -> bool:
        """Whether it would do the same now. Events are known already, and what grows holds what it has put there."""
        watched = machine.watched is None or self.events is not None
        same = watched and self.arguments == arguments and self.reads.hold()
        return same and summaries.is_kept(self.reads.found)

    def again(self, machine: Machine) -> Value:
        machine.repeated += self.size
        machine.traces |= self.traces
        machine.frame.drawn |= self.drawn
        if machine.watched is not None:
            machine.watched += self.events or []
        leave(self.left)
        pooling.go_on(machine, self.fresh)
        if NOW.reads is not None:
            NOW.reads.add(self.reads)
        return self.value


def place_of(machine: Machine, key: tuple[object, ...], context: CallChain) -> tuple[object, ...] | None:
    """What tells a call from others, beside what it reads; None where none will be made again.

    `key`: of its summary.
    """
    if machine.followed is None or machine.sparing or not machine.here.loops:
        return None
    large = machine.size >= summaries.LARGE
    return key, context, machine.inside_models, machine.parted, pooling.fresh(machine), large


def known(machine: Machine, place: tuple[object, ...] | None, arguments: Arguments) -> Followed | None:
    """The same call, if it was made before and would do the same."""
    found = machine.followed.get(place) if machine.followed is not None and place is not None else None
    return found if found is not None and found.holds(machine, arguments) else None


class Following:
    """A call while it is followed. `watched`: whether its events are asked for."""

    def __init__(self, machine: Machine, place: tuple[object, ...] | None, watched: bool) -> None:
        self.machine, self.place, self.frame = machine, place, machine.frame
        self.size = machine.size
        self.around = machine.traces, machine.watched, machine.frame.drawn, NOW.reads
        self.events: list[Event] | None = [] if watched or machine.watched is not None else None
        self.reads = Reads() if machine.followed is not None else None
        machine.traces, machine.watched, machine.frame.drawn = set(), self.events, EMPTY
        NOW.reads = self.reads

    def end(self, key: tuple[object, ...], context: CallChain, arguments: Arguments, value: Value) -> None:
        """It has returned; `key`: of its summary."""
        machine = self.machine
        traces = summaries.outside(machine.traces, context)
        if not traces:
            machine.summaries[key] = summaries.Summary(machine, context, value, self.reads)
        outer, machine.watched, drawn, NOW.reads = self.around
        if NOW.reads is not None and self.reads is not None:
            NOW.reads.add(self.reads)
        if self.reads is not None and self.place is not None and machine.followed is not None:
            machine.followed.pop(self.place, None)
            if self.reads.certain and len(self.reads.changed) <= MOST_LEFT:
                machine.followed[self.place] = Followed(
                    arguments, self.reads, self.reads.left(), value, traces, self.frame.drawn, self.events,
                    pooling.fresh(machine), machine.size - self.size,
                )  # fmt: skip
        machine.traces = outer | traces
        self.frame.drawn = drawn | self.frame.drawn
        if machine.watched is not None:
            machine.watched += self.events or []
