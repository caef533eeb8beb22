"""Samples of earlier batches: what a turn of a loop finds in what was there before it, as a run for evidence sees it.

When a loop that takes batches begins another turn, whatever holds samples of them by then, lists, dictionaries,
attributes, names, holds those of earlier batches: they get a mark (`Pooled`), as a source. What is put there later is
of this turn, and has none. Attributes and items that a turn sets anew, on all of its ways, hold nothing older: they
are `fresh`. So it is with random numbers that were drawn in a turn (`Outlived`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.inside import contained
from distify_codemods.interpreter.frames import Fresh
from distify_codemods.libraries import torch_data, torch_nn
from distify_codemods.objects import Arguments, External, Instance, Mapping, Sequence
from distify_codemods.origins import Draw, Kept, Outlived, Pooled, Share
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: What has something of each sample, or may have; figures of a batch are for the rules about figures.
OF_SAMPLES = PER_SAMPLE | {Scale.COUPLED, Scale.SLOPES, Scale.UNKNOWN}
_Key = tuple[int, object]
NONE: Fresh = frozenset()


@dataclass(frozen=True)
class _Contents:
    """Of a list or a dictionary, but for what is under known keys."""

    any: Value | None
    items: tuple[Value, ...] | None = None
    keys: Value | None = None


@dataclass(eq=False)
class _Entry:
    """An attribute, or an item under a known key."""

    holder: Obj
    table: dict[Any, Value]
    key: object
    whole: Value  # all that it was ever set to
    mark: Pooled
    shown: Value  # what was last made of it
    old: Value | None = None  # what it held when the turn began

    def show(self, fresh: bool) -> None:
        self.shown = self.whole if fresh or self.old is None else join(self.old, self.whole)
        self.table[self.key] = self.shown

    def look(self) -> None:
        """Somebody else may have set it."""
        now = self.table.get(self.key)
        if now is not None and now is not self.shown:
            self.whole = join(self.whole, now)


class Pooling:
    """What a run knows of it."""

    def __init__(self) -> None:
        self.entries: dict[_Key, _Entry] = {}
        self.holders: dict[Sequence | Mapping, Pooled] = {}
        self.names: dict[tuple[int, str], Pooled] = {}
        self.tables: dict[int, dict[str, Value]] = {}  # so that no other one gets the number of one of these
        self.outer: dict[int, dict[str, Value]] = {}  # names of functions whose inner ones set them
        self.copies: dict[Obj, Obj] = {}  # of what was made in a turn, as later ones find it
        self.aged: set[Obj] = set()  # those copies
        self.ended: dict[Obj, _Contents] = {}  # of lists of turns that are over: what such a turn put there itself
        self.fresh = NONE
        self.drawn: dict[Draw, set[cst.CSTNode]] = {}  # in the turns of which loops
        self.shares: set[Share] = set()  # all that were made
        self.marked = False  # whether anything is of an earlier batch yet
        self.bodies: dict[cst.CSTNode, set[cst.CSTNode]] = {}

    def inside(self, loop: cst.CSTNode) -> set[cst.CSTNode]:
        if loop not in self.bodies:
            self.bodies[loop] = set(tree.walk(loop))
        return self.bodies[loop]


# ---- what is put where


def contents(holder: Sequence | Mapping) -> _Contents:
    if isinstance(holder, Sequence):
        return _Contents(holder.element, items=holder.items)
    return _Contents(holder.rest, keys=holder.keys)


def made_anew(pooling: Pooling, holder: Obj) -> None:
    """A place that makes a list is come to again: this one holds nothing of what was there when a turn was over."""
    known = pooling.ended.pop(holder, None)
    if isinstance(holder, Sequence) and known is not None:
        holder.items, holder.element = known.items, known.any
    elif isinstance(holder, Mapping):
        holder.keys, holder.rest = (known.keys, known.any) if known is not None else (None, None)


def put(machine: Machine, holder: Sequence | Mapping, value: Value) -> None:
    """Into a list, or under a key that is not known."""
    if machine.pooling is not None and _may_hold(value):
        machine.pooling.holders.setdefault(holder, _mark(machine))


def named(machine: Machine, table: dict[str, Value], name: str, value: Value, lasting: bool = False) -> None:
    """A name is bound; `lasting`: one of a function around this one."""
    if machine.pooling is not None and _may_hold(value):
        machine.pooling.names[id(table), name] = _mark(machine)
        machine.pooling.tables[id(table)] = table
        if lasting:
            machine.pooling.outer[id(table)] = table


def kept(machine: Machine, holder: Obj, table: dict[Any, Value], key: object, value: Value) -> bool:
    """An attribute or item is set; whether that has been done here."""
    pooling = machine.pooling
    if pooling is None:
        return False
    place = (id(table), key)
    entry = pooling.entries.get(place)
    if entry is None:
        if not _may_hold(value):
            return False
        known = table.get(key)
        whole = value if known is None else join(known, value)
        machine.stores += known is None or whole != known
        entry = pooling.entries[place] = _Entry(holder, table, key, whole, _mark(machine), whole)
    else:
        entry.look()
        whole = join(entry.whole, value)
        machine.stores += whole != entry.whole
        entry.whole = whole
    if entry.old is not None and holder not in pooling.aged:
        pooling.fresh |= {place}
    entry.show(place in pooling.fresh)
    return True


def _may_hold(value: Value) -> bool:
    held = any(isinstance(obj, (Sequence, Mapping, Instance)) for obj in value.objs)
    if held or (value.scale in OF_SAMPLES and any(map(is_dealt, value.sources))):
        return True
    return any(isinstance(source, Draw) for source in value.sources)


def is_dealt(source: Obj | str) -> bool:
    return isinstance(source, Share) or (isinstance(source, External) and source.name in torch_data.LOADERS)


def is_of_a_batch(source: Obj | str) -> bool:
    """Of this one, or of an earlier one."""
    return is_dealt(source) or isinstance(source, (Kept, Pooled))


def _mark(machine: Machine) -> Pooled:
    mark = machine.made(Pooled, machine.here.node)
    return mark


# ---- random numbers


def drawn(machine: Machine, draw: Draw) -> None:
    """They are drawn here."""
    if machine.pooling is not None:
        machine.pooling.drawn.setdefault(draw, set()).update(here.node for here in machine.here.loops)


def drawn_again(machine: Machine, value: Value) -> Value:
    """What a call returned before, and returns here without being followed: what was drawn in it is drawn anew."""
    if machine.pooling is not None:
        for source in value.sources:
            if isinstance(source, Draw):
                drawn(machine, source)
    return value


# ---- what a turn has set anew


def fresh(machine: Machine) -> Fresh:
    return machine.pooling.fresh if machine.pooling is not None else NONE


def go_on(machine: Machine, *ways: Fresh) -> None:
    """Execution goes on from where one of several ways has ended: what all have set anew, is."""
    pooling = machine.pooling
    if pooling is None or not ways:
        return
    common = ways[0].intersection(*ways[1:])
    changed = common ^ pooling.fresh
    pooling.fresh = common
    for place in changed:
        entry = pooling.entries[place]
        entry.look()
        entry.show(place in common)


@contextmanager
def perhaps(machine: Machine) -> Iterator[None]:
    """Around what is done in some runs, and not in others."""
    before = fresh(machine)
    yield
    go_on(machine, before, fresh(machine))


# ---- what comes out of libraries


def taken(machine: Machine, value: Value, given: Arguments) -> Value:
    """What a library returned that was given a list with samples of earlier batches: perhaps one of them."""
    if machine.pooling is None or not machine.pooling.holders or not machine.pooling.marked:
        return value
    found = [
        source for one in given.all() for obj in contained(one) for held in within(obj)
        for source in held.sources if isinstance(source, (Outlived, Pooled))
    ]  # fmt: skip
    return value.adding(found) if found else value


def within(obj: Obj) -> list[Value]:
    """What a list, a dictionary or an object of the script's own holds; nothing of modules and data sets."""
    if isinstance(obj, Sequence):
        return [*(obj.items or ()), *([obj.element] if obj.element is not None else [])]
    if isinstance(obj, Mapping):
        return [*obj.items.values(), *(one for one in (obj.rest, obj.keys) if one is not None)]
    library = isinstance(obj, Instance) and (obj.base is not None or obj.of is None or obj.of.derives_from(_MODULE))
    return [] if library or not isinstance(obj, Instance) else list(obj.attributes.values())


_MODULE = torch_nn.MODULE
