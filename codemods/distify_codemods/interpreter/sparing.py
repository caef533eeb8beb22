"""A program that is too large to follow each call of it: the same function is followed a few times for each kind of
arguments, and not again.

What it returned and left in its object those times stands for the rest. All code that is reached is still looked at;
what is lost are differences between calls alike, so that only forward passes may be shared by what is seen.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import AT_THE_TOP, Const, Obj, Ref
from distify_codemods.events import Event, Kind
from distify_codemods.inside import contained, core
from distify_codemods.interpreter import summaries
from distify_codemods.libraries import python, torch_data, torch_nn, torch_optim
from distify_codemods.objects import Arguments, Bound, Class, External, Function, Instance, Method, Wrapped
from distify_codemods.ordered import Ordered
from distify_codemods.records import dataclass
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: How often a function is followed with arguments of one kind; a loop has no more turns.
TIMES = 3
#: How often one that takes batches, makes what trains, or takes steps: what is left out then is computed by all alike.
TIMES_IN_TRAINING = 12
#: How often a function of what goes on inside of models is followed at most, with arguments of whatever kinds.
TIMES_IN_ALL = 48
#: And how often in a row where nothing happened in it that had not happened in it before.
TIMES_WITHOUT_NEWS = 6


@dataclass(eq=False)
class Familiar:
    """What is known of a function from the calls that were followed, with arguments of one kind.

    whatever: of those with arguments of any, inside of models.
    """

    whatever: Familiar | None = None
    times: int = 0
    places: set[cst.CSTNode] = field(default_factory=set)  # where something happened
    without_news: int = 0  # the last few times that nothing happened elsewhere
    result: Value = NOTHING
    receiver: Obj | None = None
    trains: bool = False  # takes batches, makes what trains, or takes steps
    exits: bool = False  # ends the program: so is a call that ranks may make, or end in, at different times

    def is_known(self, machine: Machine, arguments: Arguments) -> bool:
        without_news = self.whatever is not None and self.whatever.without_news >= TIMES_WITHOUT_NEWS
        if self.times < (TIMES_IN_TRAINING if self.trains else 1 if without_news else TIMES):
            return False
        if not self.exits:
            return True
        return not machine.parted and not machine.control and not any(one.sources for one in arguments.all())

    def again(self, machine: Machine, function: Function, arguments: Arguments, receiver: Obj | None) -> Value:
        """What one more call returns, and does to its object."""
        machine.spared[function] = machine.spared.get(function, 0) + 1
        machine.traces.add(AT_THE_TOP)  # whoever calls it is not known to leave nothing behind
        if receiver is not None and self.receiver is not None:
            for name, value in self.receiver.attributes.items():
                if name not in receiver.attributes:
                    machine.keep(receiver.attributes, name, _without_numbers(value))
        return replace(self.result, sources=self.result.sources.union(*(one.sources for one in arguments.all())))

    def learn(self, events: list[Event], result: Value, receiver: Obj | None) -> None:
        seen = _Seen(
            {event.node for event in events},
            _without_numbers(result),
            receiver,
            trains=any(map(_trains, events)),
            exits=any(event.kind is Kind.LEAVE and event.name == "exit" for event in events),
        )
        self._learn(seen)
        if self.whatever is not None:
            self.whatever._learn(seen)

    def _learn(self, seen: _Seen) -> None:
        self.times += 1
        self.without_news = self.without_news + 1 if seen.places <= self.places else 0
        self.places |= seen.places
        self.result = join(self.result, seen.result)
        self.receiver = self.receiver or seen.receiver
        self.trains, self.exits = self.trains or seen.trains, self.exits or seen.exits


@dataclass(frozen=True, eq=False)
class _Seen:
    """What one call has done."""

    places: set[cst.CSTNode]
    result: Value
    receiver: Obj | None
    trains: bool
    exits: bool


def familiar(machine: Machine, function: Function, arguments: Arguments, receiver: Obj | None) -> Familiar | None:
    """None where each call is followed."""
    if not machine.sparing or (receiver is not None and not _is_plain(receiver)):
        return None
    initialises = isinstance(function.node, cst.FunctionDef) and function.node.name.value == "__init__"
    part = machine.inside_models > 0 or initialises
    whatever = None
    if part:
        whatever = machine.familiar.setdefault((function.node, receiver and _kind(receiver, True)), Familiar())
        if whatever.times >= TIMES_IN_ALL and not whatever.trains:
            return whatever
    key = (
        function.node, receiver and _kind(receiver, True), *(_likeness(one, part) for one in arguments.all()),
        *arguments.keywords, part, machine.grad, _words(machine.control),
    )  # fmt: skip
    return machine.familiar.setdefault(key, Familiar(whatever))


def _is_plain(receiver: Obj) -> bool:
    """A module, or of a class that derives from nothing of a library."""
    if not isinstance(receiver, Instance) or receiver.of is None:
        return False
    return receiver.of.derives_from(torch_nn.MODULE) or all(
        name.startswith((*python.PLAIN_BASES, *torch_nn.OF_KERAS)) for name in receiver.of.libraries
    )


def _likeness(value: Value, part: bool) -> object:
    of_a_batch = any(isinstance(one, External) for one in value.sources)
    return frozenset(_kind(obj, part) for obj in contained(value)), of_a_batch, _words(value.sources)


def _words(sources: Ordered[Obj | str]) -> frozenset[str]:
    return frozenset(one for one in sources if isinstance(one, str))


def _kind(obj: Obj, part: bool) -> object:
    """Sizes tell no call from another; words and flags do. Outside of models, each of them is its own kind.

    `part`: of what goes on inside of models.
    """
    obj = core(obj) if isinstance(obj, Wrapped) else obj
    if not part and summaries.is_of_training(obj):
        return obj
    if isinstance(obj, Const):
        return type(obj.value), None if _is_a_number(obj) else obj.value
    if isinstance(obj, Instance):
        return obj.of
    if isinstance(obj, (Ref, External, Method)):
        return type(obj), obj.name
    if isinstance(obj, Bound):
        return obj.function
    return obj if isinstance(obj, (Function, Class)) else type(obj)


def _is_a_number(obj: Obj) -> bool:
    return isinstance(obj, Const) and type(obj.value) in (int, float)


def _without_numbers(value: Value) -> Value:
    """Other calls have others: no branch is decided by those."""
    if not any(map(_is_a_number, value.objs)):
        return value
    return replace(value, objs=Ordered(obj for obj in value.objs if not _is_a_number(obj)), open=True)


_OF_TRAINING = frozenset({Kind.DRAW, Kind.PASS, Kind.SHARE, Kind.GRADIENT})
_MADE = (torch_optim.OWN, torch_data.OWN)


def _trains(event: Event) -> bool:
    if event.kind is Kind.METHOD:
        return event.name in ("backward", "step")
    if event.kind is Kind.CALL:
        return event.name.startswith(_MADE) or event.name == torch_optim.BACKWARD
    return event.kind in _OF_TRAINING
