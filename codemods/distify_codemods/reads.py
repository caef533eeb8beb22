"""What a run knows and may change, and which of it a call has read and set since it began.

A call that is made once more from the same place, with the same arguments, does what it did before, if all that it has
read then is what it was and all that it has set is what it set. What only ever grows by what is put there, and is not
asked what it held, is not noted: the same once more changes nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from contextlib import contextmanager
from dataclasses import field
from enum import Enum
from functools import cached_property
from itertools import count
from typing import Any, TypeVar, overload

from distify_codemods.records import dataclass, finished

Key = TypeVar("Key", bound=Hashable)
Held = TypeVar("Held")
Other = TypeVar("Other")

MISSING: Any = object()
_WHOLE = object()  # the key of all that a table holds
Place = tuple[int, object]
Left = tuple[dict[Any, Any], object, Any]
_What = Enum("_What", "READ SET KEPT OUTER")
NUMBERS = count()  # of frames, calls, objects and tables, in the order in which they begin


@dataclass(eq=False)
class Found:
    """What a call found that was there before it, and what it has put beside what was there: by table and key."""

    read: dict[Place, tuple[Any, Any]] = field(default_factory=dict)
    outer: dict[tuple[Any, str], Any] = field(default_factory=dict)  # names of functions around it
    kept: dict[Place, tuple[Any, Any]] = field(default_factory=dict)

    def hold(self) -> bool:
        """Whether all that was read is what it was."""
        outer = all(_is(frame.env, name, value) for (frame, name), value in self.outer.items())
        return outer and all(_is(table, place[1], value) for place, (table, value) in self.read.items())

    def add(self, one: tuple[_What, Any, Any, Any], hidden: set[Place], since: int, asked: bool) -> bool:
        """What was noted; see `Reads._find`."""
        what, table, key, value = one
        place = (id(table), key)
        if what is _What.SET:
            hidden.add(place)
        elif what is _What.KEPT:
            self.kept[place] = table, value
        elif what is _What.READ and place not in hidden and place not in self.read:
            self.read[place] = table, value
            return not asked or _is(table, key, value)
        elif what is _What.OUTER and table.number < since and (table, key) not in self.outer:
            self.outer[table, key] = value
            return not asked or _is(table.env, key, value)
        return True


@dataclass(eq=False)
class Reads:
    """What a call that is followed has read, as it found it, and what it has set, in that order.

    What the calls within it have read and set is put together when it is asked for, as of few calls it is.
    """

    log: list[tuple[_What, Any, Any, Any] | Reads | Found] = field(default_factory=list)
    noted: set[Place] = field(default_factory=set)  # what need not be noted again
    changed: dict[Place, dict[Any, Any]] = field(default_factory=dict)  # here, and in the calls within
    since: int = field(default_factory=lambda: next(NUMBERS))  # frames with higher numbers are its own
    certain: bool = True  # whether that is all that matters to it

    @cached_property
    def found(self) -> Found:
        found = Found()
        self._find(found, set(), self.since)
        self.log = [found]
        return found

    def hold(self) -> bool:
        """Whether all that was read is what it was. Where it is not, that mostly shows before all is put together."""
        if "found" in self.__dict__:
            return self.found.hold()
        found = Found()
        holds = self._find(found, set(), self.since, True)
        if holds:
            self.found, self.log = found, [found]
        return holds

    def _find(self, found: Found, hidden: set[Place], since: int, asked: bool = False) -> bool:
        """`hidden`: what was set before it is read. `since`: of the outermost call.

        `asked`: whether it ends, with false, at the first that is not what it was.
        """
        for one in self.log:
            if isinstance(one, Reads):
                if not one._find(found, hidden, since, asked):
                    return False
            elif isinstance(one, Found):
                read = {place: one.read[place] for place in one.read.keys() - hidden - found.read.keys()}
                outer = {at: value for at, value in one.outer.items() if at[0].number < since and at not in found.outer}
                if asked and not Found(read, outer).hold():
                    return False
                found.read |= read
                found.outer |= outer
                found.kept |= one.kept
            elif not found.add(one, hidden, since, asked):
                return False
        if "found" in self.__dict__:
            hidden.update(self.changed)
        return True

    def lasting(self, context: tuple[object, ...], *but: object) -> Found:
        """What it found, without what a call of this context makes anew each time, and without these tables."""
        left_out = set(map(id, but))
        found = {
            place: one for place, one in self.found.read.items()
            if _number(one[0]) < self.since and place[0] not in left_out and not _is_of(one[0], context)
        }  # fmt: skip
        kept = {place: one for place, one in self.found.kept.items() if _number(one[0]) < self.since}
        return Found(found, self.found.outer, kept)

    def left(self) -> list[Left]:
        """What was set, as it is now."""
        return [(table, key, dict.get(table, key, MISSING)) for (_, key), table in self.changed.items()]

    def add(self, other: Reads) -> None:
        """What a call within this one has read and set."""
        self.log.append(other)
        self.changed |= other.changed
        self.certain &= other.certain


class _Now:
    """Of the innermost call that is followed and may be made again; None where there is none."""

    reads: Reads | None = None


NOW = _Now()


def note(table: dict[Any, Any], key: object, value: object) -> None:
    reads = NOW.reads
    if reads is not None:
        place = (id(table), key)
        if place not in reads.noted and place not in reads.changed:
            reads.noted.add(place)
            reads.log.append((_What.READ, table, key, value))


def note_outer(frame: Any, name: str, value: object) -> None:
    """A name of a function around the one that is run."""
    reads = NOW.reads
    if reads is not None and frame.number < reads.since:
        reads.log.append((_What.OUTER, frame, name, value))


def note_set(table: dict[Any, Any], key: object) -> None:
    reads = NOW.reads
    if reads is not None and (id(table), key) not in reads.changed:
        reads.changed[id(table), key] = table
        reads.log.append((_What.SET, table, key, None))


def note_kept(table: dict[Any, Any], key: object, whole: object) -> None:
    if NOW.reads is not None:
        NOW.reads.log.append((_What.KEPT, table, key, whole))


@contextmanager
def once() -> Iterator[None]:
    """Around what is not done when the call is made again."""
    around, NOW.reads = NOW.reads, None
    yield
    NOW.reads = around


def uncertain() -> None:
    """What is done now cannot be left out when the call is made again."""
    if NOW.reads is not None:
        NOW.reads.certain = False


def leave(left: list[Left]) -> None:
    for table, key, value in left:
        if value is MISSING:
            dict.pop(table, key, None)
        else:
            dict.__setitem__(table, key, value)


def _is(table: dict[Any, Any], key: object, value: object) -> bool:
    now = dict.get(table, key, MISSING) if key is not _WHOLE else list(dict.items(table))
    return now is value or bool(now == value)


def _number(table: Any) -> int:
    """Of a table, or of the object whose fields it has."""
    number: int = table.number if isinstance(table, Table) else dict.get(table, "number", -1)
    return number


def _is_of(table: dict[Any, Any], context: tuple[object, ...]) -> bool:
    """Whether it has the fields of an object that was made in a call of this context."""
    made: tuple[object, ...] = () if isinstance(table, Table) else dict.get(table, "context", ())
    return bool(context) and made[: len(context)] == context


class Table(dict[Key, Held]):
    """A dictionary of which is noted what is read and set."""

    def __init__(self, *given: Any, **named: Held) -> None:
        dict.__init__(self, *given, **named)
        self.number = next(NUMBERS)

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __getitem__(self, key: Key) -> Held:
        value = dict.__getitem__(self, key)
        note(self, key, value)
        return value

    @overload  # type: ignore[override]
    def get(self, key: object) -> Held | None: ...
    @overload
    def get(self, key: object, default: Other) -> Held | Other: ...
    def get(self, key: Any, default: Any = None) -> Any:
        value = dict.get(self, key, MISSING)
        note(self, key, value)
        return default if value is MISSING else value

    def __contains__(self, key: Any) -> bool:
        value = dict.get(self, key, MISSING)
        note(self, key, value)
        return value is not MISSING

    def _note_all(self) -> None:
        if NOW.reads is not None and (id(self), _WHOLE) not in NOW.reads.noted:
            note(self, _WHOLE, list(dict.items(self)))

    def __iter__(self) -> Iterator[Key]:
        self._note_all()
        return dict.__iter__(self)

    def __len__(self) -> int:
        self._note_all()
        return dict.__len__(self)

    def keys(self) -> KeysView[Key]:  # type: ignore[override]
        self._note_all()
        return dict.keys(self)

    def values(self) -> ValuesView[Held]:  # type: ignore[override]
        self._note_all()
        return dict.values(self)

    def items(self) -> ItemsView[Key, Held]:  # type: ignore[override]
        self._note_all()
        return dict.items(self)

    def __setitem__(self, key: Key, value: Held) -> None:
        note_set(self, key)
        dict.__setitem__(self, key, value)

    def grow(self, key: Key, value: Held) -> None:
        """Sets what holds all that was there, and more: nothing to note."""
        dict.__setitem__(self, key, value)

    def setdefault(self, key: Key, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return dict.__getitem__(self, key)

    def pop(self, key: Key, *default: Any) -> Any:
        if key in self:
            note_set(self, key)
        return dict.pop(self, key, *default)

    def update(self, other: Any = (), /, **named: Any) -> None:
        for key in dict(other, **named) if NOW.reads is not None else ():
            note_set(self, key)
        dict.update(self, other, **named)

    def copy(self) -> dict[Key, Held]:
        self._note_all()
        return dict(dict.items(self))

    def clear(self) -> None:
        uncertain()
        dict.clear(self)


class Marks(Table[Key, None]):
    """A set that grows, of which is noted what it is asked for."""

    def add(self, one: Key) -> None:
        dict.__setitem__(self, one, None)

    def add_all(self, more: Iterable[Key]) -> None:
        for one in more:
            self.add(one)


class Changing:
    """A field of objects that may be set anew: it is noted who reads it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, obj: object, owner: type) -> Any:
        held = obj.__dict__
        value = held[self.name]
        if NOW.reads is not None:
            note(held, self.name, value)
        return value

    def __set__(self, obj: object, value: object) -> None:
        held = obj.__dict__
        if self.name in held:
            note_set(held, self.name)
        held[self.name] = value


def changing(kind: type, *names: str) -> None:
    for name in names:
        setattr(finished(kind), name, Changing(name))
