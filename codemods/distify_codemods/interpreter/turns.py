"""Loops and comprehensions over a few known items: each turn is followed by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj, Turn
from distify_codemods.libraries import python
from distify_codemods.objects import Mapping, Passing, Sequence
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

MOST_TURNS = 8
MOST_NAMES, MOST_LINES = 100, 3  # of turns that set an attribute each by its name
DEEPEST = 2  # turns of loops within turns of loops


def known(machine: Machine, over: Value, loop: cst.CSTNode) -> tuple[Value, ...] | None:
    """What each turn over a value gets, where there are few and all are known."""
    if sum(isinstance(step, Turn) for step in machine.frame.context) >= DEEPEST:
        return None
    items = items_of(machine, over, loop)
    most = MOST_NAMES if isinstance(loop, cst.For) and _sets_by_name(loop) else MOST_TURNS
    return items if items is not None and 0 < len(items) <= most else None


def _sets_by_name(loop: cst.For) -> bool:
    """`for name, value in vars(args).items(): setattr(self, name, value)`, and little else."""
    inside = list(tree.walk(loop.body))
    names = {(tree.dotted(one.func) or "").rpartition(".")[2] for one in inside if isinstance(one, cst.Call)}
    plain = len(loop.body.body) <= MOST_LINES and not any(isinstance(one, (cst.For, cst.While)) for one in inside)
    return plain and bool(names & python.SETTERS)


def items_of(machine: Machine, over: Value, place: cst.CSTNode) -> tuple[Value, ...] | None:
    """The items of a list, tuple or dictionary, also if they are numbered or zipped."""
    only = over.single()
    if over.open:
        return None
    if isinstance(only, Sequence):
        return only.items
    if isinstance(only, Mapping):
        return keys_of(machine, only, place)
    if not isinstance(only, Passing) or only.repeats or only.partial:
        return None
    if only.zipped:
        columns = [items_of(machine, value, place) for value in only.zipped]
        rows = [column for column in columns if column is not None]
        if len(rows) < len(columns) or len({len(column) for column in rows}) > 1:
            return None
        return tuple(_pair(machine, place, only, number, row) for number, row in enumerate(zip(*rows, strict=True)))
    items = items_of(machine, only.over, place) if only.over is not None else None
    if items is None or not only.numbered:
        return items
    numbers = [machine.made(Const, place, number, int, value=number) for number in range(len(items))]
    return tuple(
        _pair(machine, place, only, number, (Value(numbers[number].alone), item)) for number, item in enumerate(items)
    )


def keys_of(machine: Machine, table: Mapping, place: cst.CSTNode) -> tuple[Value, ...] | None:
    if table.rest is not None:
        return None
    return tuple(Value(machine.made(Const, place, key, type(key), value=key).alone) for key in table.items)


def pairs_of(machine: Machine, table: Mapping, place: cst.CSTNode) -> tuple[Value, ...] | None:
    keys = keys_of(machine, table, place)
    if keys is None:
        return None
    pairs = zip(keys, table.items.values(), strict=True)
    return tuple(_pair(machine, place, table, number, pair) for number, pair in enumerate(pairs))


def _pair(machine: Machine, place: cst.CSTNode, whole: Obj, number: int, items: tuple[Value, ...]) -> Value:
    pair = machine.made(Sequence, place, "turn", whole, number)
    pair.items = items
    return Value(pair.alone)
