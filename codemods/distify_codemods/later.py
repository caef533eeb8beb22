"""Functions that a run has not entered, since a library calls them at a time of its own: timers, hooks, handlers.

Each is run once at the very end, with arguments that are not known, where it was handed over. What it does is for the
rules alone, as what a constant turns off (`interpreter/unused.py`). Only what writes is kept, and only where ranks need
not meet: nobody knows when, how often or in which thread it is called. Of the others, `unfollowed.py` tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field, replace

import libcst as cst

from distify_codemods import file_events, tree
from distify_codemods.allocation import Obj
from distify_codemods.callables import functions, methods
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import Facts, given_to, loaders_in
from distify_codemods.inside import core
from distify_codemods.libraries import effects, outside, torch_data, torch_nn
from distify_codemods.objects import Arguments, Bound, Class, Function, Instance, Mapping, Sequence
from distify_codemods.ordered import EMPTY
from distify_codemods.records import dataclass
from distify_codemods.unfollowed import called_by_libraries

_MOST = 200
#: Bases whose methods nobody calls but the script itself.
_PASSIVE = (torch_nn.OWN, torch_data.OWN, "builtins.", "typing.", "abc.", "enum.", "collections.", "torchvision.")
#: What makes a function of the name of a method.
_BY_NAME = ("operator.methodcaller", "operator.attrgetter")
_MEETS = frozenset({Kind.FORWARD, Kind.OWN, Kind.PASS, Kind.DRAW, Kind.GRADIENT, Kind.ARGUMENTS_PARSED})


@dataclass(frozen=True)
class _Handed:
    """A function or method (with its object, if that is known), and what gave it away."""

    function: Function
    receiver: Obj | None
    event: Event


def with_later(facts: Facts) -> Facts:
    """The facts with what such functions write; values of expressions in them are known then, too."""
    return _Entering(facts).all()


@dataclass(eq=False)
class _Entering:
    facts: Facts
    tried: set[cst.CSTNode] = field(default_factory=set)

    def all(self) -> Facts:
        following: dict[Event, list[Event]] = {}
        for handed in list(_handed(self.facts)):
            node = handed.function.node
            if node is None or node in self.tried or len(self.tried) >= _MOST or self._is_known(node):
                continue
            self.tried.add(node)
            following.setdefault(handed.event, []).extend(self._enter(handed))
        if not any(following.values()):
            return self.facts
        events = [one for event in self.facts.run.events for one in (event, *following.get(event, ()))]
        for number, event in enumerate(events):
            event.number = number
        return replace(self.facts, run=replace(self.facts.run, events=events))

    def _is_known(self, node: cst.FunctionDef | cst.Lambda) -> bool:
        values = self.facts.run.values
        return any(part in values for part in tree.walk(node.body))

    def _enter(self, handed: _Handed) -> list[Event]:
        """What happens in it; nothing where that is not for rank 0 alone. What was known before stays as it is."""
        values = self.facts.run.machine.values
        before = values.copy()
        found = _entered(self.facts, handed.event, handed.function, handed.receiver)
        if not any(map(_writes, found)) or any(map(self._lets_meet, found)):
            values.clear()
            found = []
        values.update(before)
        for one in found:
            one.unused = True
        return found

    def _lets_meet(self, event: Event) -> bool:
        """Whether all ranks would have to come, so that it is right in each of them."""
        if event.kind in _MEETS or (event.kind is Kind.METHOD and event.name == "backward"):
            return True
        if event.kind is Kind.TEST:
            return "file" in event.value.sources
        asks = outside.asks(event.name) or outside.connects(event.name) or outside.is_asked_by_each(event.name)
        return file_events.reads(event) or (event.kind is Kind.CALL and asks)


def _entered(facts: Facts, event: Event, function: Function, receiver: Obj | None) -> list[Event]:
    """What happens in a function that a library calls with what an event gives it."""
    machine = facts.run.machine
    complete, machine.events, machine.draws = machine.complete, [], []
    machine.frame, machine.grad, machine.control, machine.parted = event.here.frame, event.grad, EMPTY, False
    machine.here = Here(event.here, event.node, event.here.frame)
    machine.invoke(function, Arguments(), event.node, receiver)
    machine.complete = complete
    return machine.events


@contextmanager
def in_workers(facts: Facts, begins: Event) -> Iterator[list[Event]]:
    """What happens in the workers of loaders once a pass over these begins. Values in there are known meanwhile."""
    values = facts.run.machine.values
    before, found = values.copy(), list[Event]()
    for loader in loaders_in(begins.value):
        for obj in given_to(loader.arguments or Arguments()):
            receiver = obj if isinstance(obj, Instance) else obj.receiver if isinstance(obj, Bound) else None
            for function in called_by_libraries(obj):
                found += _entered(facts, begins, function, receiver)
    yield found
    values.clear()
    values.update(before)


def _writes(event: Event) -> bool:
    return event.kind is Kind.PRINT or file_events.writes(event) or effects.is_tracker(event.name)


def _handed(facts: Facts) -> Iterator[_Handed]:
    """Each function that a library may call, by being handed over or as a method of a class that is below its own."""
    workers = {obj for event in facts.of_kind(Kind.CALL) if _is_of_workers(event) for obj in given_to(event.arguments)}
    for event in facts.of_kind(Kind.CALL, Kind.METHOD, Kind.STORE):
        if event.name.startswith("local.") or _is_of_workers(event):
            continue
        for obj in _given(event):
            if obj not in workers:
                yield from _functions(obj, event)
        if event.name in _BY_NAME:
            yield from _named(facts, event)
    for cls in facts.run.machine.classes if facts.run.events else ():
        below = any(not name.startswith(_PASSIVE) for name in cls.libraries)
        yield from _methods(facts, cls, [*cls.attributes] if below else ["__del__"])


def _is_of_workers(event: Event) -> bool:
    return event.name.startswith(torch_data.OF_WORKERS)


def _given(event: Event) -> Iterator[Obj]:
    if event.kind is not Kind.STORE:
        yield from given_to(event.arguments)
    elif not event.name.endswith("excepthook") and not any(isinstance(obj, _OWN) for obj in event.receiver.objs):
        yield from event.value.objs  # but of what is called when the script fails


_OWN = (Instance, Class, Mapping, Sequence)


def _functions(obj: Obj, event: Event) -> Iterator[_Handed]:
    inner = core(obj)
    yield from (_Handed(function, receiver, event) for function, receiver in functions(inner))
    if isinstance(inner, Instance) and inner.of is not None and not inner.of.derives_from(torch_nn.MODULE):
        yield from (_Handed(function, inner, event) for function in methods(inner.of, "__call__"))


def _named(facts: Facts, event: Event) -> Iterator[_Handed]:
    """The methods of any class that `operator.methodcaller("save")` may call."""
    names = [value.constant() for value in event.arguments.all()]
    for cls in facts.run.machine.classes:
        for name in names:
            for function in methods(cls, name) if isinstance(name, str) else ():
                yield _Handed(function, _one_of(facts, cls), event)


def _methods(facts: Facts, cls: Class, names: Iterable[object]) -> Iterator[_Handed]:
    """What a class has put in the place of what a library calls: `run` of a thread, `emit` of a handler."""
    found = [one for name in names if _is_called(name) for one in methods(cls, str(name))]
    if not found:
        return
    made = _one_of(facts, cls)
    calls = (one for one in facts.of_kind(Kind.CALL) if made is not None and made in one.value.objs)
    event = next(calls, facts.run.events[0])
    yield from (_Handed(function, made, event) for function in found)


def _is_called(name: object) -> bool:
    return isinstance(name, str) and (name == "__del__" or not name.startswith("_"))


def _one_of(facts: Facts, cls: Class) -> Obj | None:
    made = (obj for obj in facts.run.machine.objects.values() if isinstance(obj, Instance))
    return next((obj for obj in made if obj.of is cls), None)
