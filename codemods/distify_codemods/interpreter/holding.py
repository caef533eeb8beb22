"""What lists and dictionaries come to hold.

Whether a loop has anything new at its head, and whether a call may do something new, hangs on it: all of it is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distify_codemods.interpreter import pooling, targets
from distify_codemods.values import NOTHING, Mapping, Sequence, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def append(machine: Machine, listed: Sequence, value: Value) -> None:
    """The list may hold this as well; which item is where is no longer known."""
    pooling.put(machine, listed, value)
    before = listed.element, listed.items
    listed.element = join(targets.any_item(Value(listed.alone)), value)
    listed.items = None
    machine.stores += before != (listed.element, None)


def set_item(machine: Machine, table: Mapping, key: object, value: Value) -> None:
    """An entry of a dictionary; None: under a key that is not known."""
    if key is not None:
        machine.keep(table.items, key, value, table)
        return
    pooling.put(machine, table, value)
    before = table.rest
    table.rest = join(before or NOTHING, value)
    machine.stores += before != table.rest


def update(machine: Machine, table: Mapping, other: Value) -> None:
    """`table.update(other)`, of a dictionary or of pairs."""
    for one in other.objs:
        if isinstance(one, Sequence):
            for pair in (*(one.items or ()), one.element or NOTHING):
                _add_pair(machine, table, pair)
        if isinstance(one, Mapping):
            for key, value in list(one.items.items()):
                set_item(machine, table, key, value)
            if one.rest is not None:
                set_item(machine, table, None, one.rest)


def _add_pair(machine: Machine, table: Mapping, pair: Value) -> None:
    for one in pair.objs:
        if isinstance(one, Sequence) and one.items is not None and len(one.items) == 2:
            set_item(machine, table, one.items[0].constant(), one.items[1])
