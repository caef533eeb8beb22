"""Calls that need not be followed: they were made alike before, and left nothing behind that matters.

Of any call, those with the very same arguments that left no trace. Of a large program also those that only compute:
helpers that were followed a few times with arguments of the same kinds and touched neither models, batches nor files.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import AT_THE_TOP, CallChain, Const, Obj
from distify_codemods.events import Event, Kind
from distify_codemods.inside import contained
from distify_codemods.interpreter import lengths
from distify_codemods.libraries import effects, python, torch_data, torch_nn, torch_optim
from distify_codemods.objects import Arguments, External, Function, Instance, Mapping, Sequence, Setting, Wrapped
from distify_codemods.ordered import Ordered
from distify_codemods.reads import NOW, Found, Reads, changing
from distify_codemods.records import dataclass
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value, join, join_two

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: Statements after which a program is large.
LARGE = 15_000
#: How often a helper is followed before it is known to only compute.
TRIALS = 2


# ---- calls with the same arguments


def key_of(machine: Machine, function: Function, arguments: Arguments, receiver: Obj | None) -> tuple[object, ...]:
    return (
        function,
        receiver,
        *map(_likeness, _given(arguments)),
        *arguments.keywords,
        machine.grad,
        _alike(machine.control),
        lengths.in_turns(machine),
    )


class Summary:
    """What a call returned, and what it has read of what was there before it."""

    def __init__(self, machine: Machine, context: CallChain, value: Value, reads: Reads | None) -> None:
        self.value, self.reads, self.context = value, reads, context
        self.but = machine.values, machine.summaries  # what expressions were, and which calls were known, by now

    @cached_property
    def found(self) -> Found | None:
        return self.reads.lasting(self.context, *self.but) if self.reads is not None else None

    def holds(self) -> bool:
        """Whether it would return the same now, and change nothing."""
        holds = self.found is None or (self.found.hold() and is_kept(self.found))
        if holds and self.found is not None and NOW.reads is not None:
            NOW.reads.log.append(self.found)
        return holds


def is_kept(found: Found) -> bool:
    """Whether what was put beside other things was not taken from there."""
    now = ((dict.get(table, place[1]), whole) for place, (table, whole) in found.kept.items())
    return all(one is whole or (one is not None and join_two(one, whole) == one) for one, whole in now)


def _given(arguments: Arguments) -> list[Value | None]:
    return [*arguments.positional, *arguments.keywords.values(), arguments.star, arguments.double_star]


def _likeness(value: Value | None) -> object:
    if value is None:
        return None
    said = value.scale, value.mask, value.open, value.dims, value.one_row
    return _alike(value.objs), _alike(value.sources), said


def _alike(things: Ordered[Obj] | Ordered[Obj | str]) -> frozenset[object]:
    """A literal is the same whichever calls led to it. It is kept with the set, which is asked for at each call."""
    found: frozenset[object] | None = getattr(things, "alike", None)
    if found is None:
        alike = ((one.site, type(one.value), one.value) if isinstance(one, Const) else one for one in things)
        found = things.alike = frozenset(alike)
    return found


TRACELESS = frozenset({Kind.ATTRIBUTE, Kind.TEST, Kind.ASSERT, Kind.OWN})


def _makes_something(node: cst.CSTNode, value: Value) -> bool:
    """A loader, a layer, an optimizer: made twice, it is two."""
    return any(isinstance(obj, External) and obj.site is node for obj in value.objs)


_READING = frozenset("get items keys values copy".split())


def traces_of(machine: Machine, event: Event, receiver: Value, value: Value) -> list[CallChain]:
    """Where the things were made that the event changes or uses; empty where no call is told from another by it.

    A call whose traces are all of things that were made in it may be summed up by its value the next time it is made
    alike. What outlives every call was made at the top. Who reads a file finds another in it once that is written anew.
    """
    if event.kind is Kind.CALL:
        plain = event.name.startswith(effects.PURE) and not _makes_something(event.node, value)
        pure = (machine.inside_models > 0 or plain) and not _touches_files(event.name)
        own = event.name.startswith("local.") and not all(map(machine.temporary.__contains__, value.objs))
        return [] if pure and not own else [AT_THE_TOP]
    if event.kind is Kind.FORWARD:
        used = any(isinstance(obj, Wrapped) or obj in machine.optimized for obj in receiver.objs)
        return [AT_THE_TOP] if used else []
    if event.kind in (Kind.METHOD, Kind.STORE):
        lasting = (obj for obj in receiver.objs if obj not in machine.temporary)
        return [obj.context for obj in lasting if _is_touched(event, obj)]
    if event.kind is Kind.LOOP:
        return [AT_THE_TOP] if _over_batches(value) else []
    left = event.kind is Kind.LEAVE and event.name in ("return", "break", "continue")
    return [] if left else [AT_THE_TOP]


def _touches_files(name: str) -> bool:
    return name in effects.IMPURE or effects.reading(name) is not None


def _is_touched(event: Event, obj: Obj) -> bool:
    if isinstance(obj, Mapping):
        return event.kind is Kind.STORE or event.name not in _READING
    return isinstance(obj, (Instance, External, Wrapped))


def are_records(objs: Ordered[Obj]) -> bool:
    """Objects of the script's own that are no layers, and nothing of a library's."""
    return all(isinstance(obj, Instance) and not is_of_training(obj) for obj in objs)


def outside(traces: set[CallChain], context: CallChain) -> set[CallChain]:
    """The traces of a call without those of what was made in it."""
    depth = len(context)
    return {one for one in traces if one[:depth] != context}


def _over_batches(value: Value) -> bool:
    return any(isinstance(obj, External) and obj.name in torch_data.LOADERS for obj in contained(value))


# ---- helpers of a large program


@dataclass(eq=False)
class Helper:
    """What is known of a function, called with arguments of certain kinds."""

    runs: int = 0
    only_computes: bool = True
    result: Value = NOTHING
    receiver: Obj | None = None


changing(Helper, "runs", "only_computes", "result", "receiver")


def helper_of(machine: Machine, function: Function, arguments: Arguments, receiver: Obj | None) -> Helper | None:
    """None where the program is small, or where the call is given what training is about."""
    if machine.sparing or machine.size < LARGE or not _are_plain(machine.control):
        return None
    given = [value for value in _given(arguments) if value is not None]
    if not all(map(_is_plain, given)) or (receiver is not None and is_of_training(receiver)):
        return None
    kinds = tuple(frozenset(map(_kind, value.objs)) for value in given)
    key = (function.node, type(receiver), receiver.of if isinstance(receiver, Instance) else None, kinds)
    helpers = machine.helpers
    return helpers.setdefault((*key, *arguments.keywords), Helper())


def _is_plain(value: Value) -> bool:
    plain = value.scale is Scale.CONST and _are_plain(value.sources)
    return plain and not any(map(is_of_training, contained(value)))


def _are_plain(sources: Ordered[Obj | str]) -> bool:
    return all(isinstance(one, (str, Const, Setting)) for one in sources)


def is_of_training(obj: Obj) -> bool:
    if isinstance(obj, Instance):
        own = obj.of is not None and obj.of.derives_from(torch_nn.MODULE, torch_optim.OPTIMIZER)
        return own or obj.base is not None
    if isinstance(obj, External):
        return obj.name.startswith("torch.") or obj.name in torch_data.LOADERS
    return isinstance(obj, (Wrapped, Function))


def _kind(obj: Obj) -> object:
    return (type(obj.value), obj.value) if isinstance(obj, Const) else type(obj)


def known(machine: Machine, helper: Helper, arguments: Arguments, receiver: Obj | None) -> Value | None:
    """What the call returns, when that is known without following it."""
    if helper.runs < TRIALS or not helper.only_computes:
        return None
    if receiver is not None and helper.receiver is not None:
        for name, value in helper.receiver.attributes.items():
            machine.keep(receiver.attributes, name, value)
    sources = helper.result.sources.union(*(value.sources for value in _given(arguments) if value is not None))
    return replace(helper.result, sources=sources)


def learn(helper: Helper, context: CallChain, events: list[Event], result: Value, receiver: Obj | None) -> None:
    if helper.runs >= TRIALS and not helper.only_computes:
        return
    helper.runs += 1
    helper.result = join(helper.result, result)
    helper.receiver = receiver
    computes = _is_plain(result) and all(_only_computes(event, context, receiver) for event in events)
    helper.only_computes = helper.only_computes and computes


_INSIDE = frozenset({*TRACELESS, Kind.PRINT, Kind.LEAVE})
#: Whose functions change nothing that outlives the program.
_OF_NUMBERS = (*effects.PURE, "scipy.", "pandas.", "sklearn.", "matplotlib.", "random.", "datetime.", python.PATHS)


def _only_computes(event: Event, context: CallChain, receiver: Obj | None) -> bool:
    """Nothing that was there before the call is changed by it, but for the object that it initialises."""
    if event.kind in _INSIDE:
        return True
    if event.kind is Kind.LOOP:
        return not _over_batches(event.value)
    if event.kind is Kind.CALL:
        numbers = event.name == "?" or event.name.startswith((*_OF_NUMBERS, *python.EXITS, "local."))
        impure = _touches_files(event.name) or event.name.startswith(torch_nn.OF_TRAINING)
        return numbers and not impure and not any(map(is_of_training, event.value.objs))
    outside = (obj for obj in event.receiver.objs if obj is not receiver and obj.context[: len(context)] != context)
    changes = event.kind in (Kind.METHOD, Kind.STORE) and any(map(_may_change, outside))
    return not changes and not any(map(is_of_training, event.receiver.objs))


def _may_change(obj: Obj) -> bool:
    if isinstance(obj, External):
        return not obj.name.startswith(_OF_NUMBERS)
    return isinstance(obj, (Instance, Sequence, Mapping))
