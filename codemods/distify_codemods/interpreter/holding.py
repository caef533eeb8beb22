"""What lists and dictionaries come to hold.

Whether a loop has anything new at its head, and whether a call may do something new, hangs on it: all of it is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj, Ref
from distify_codemods.interpreter import anything, forms, modules, parts, pooling
from distify_codemods.libraries import in_place, python
from distify_codemods.objects import Arguments, Class, External, Instance, Mapping, Parameters, Passing, Sequence
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import PART, PIECE, SEVERAL, Shape
from distify_codemods.reads import Table
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import ENTRY, NOTHING, SIZE, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def append(machine: Machine, listed: Sequence, value: Value) -> None:
    """The list may hold this as well; which item is where is no longer known."""
    pooling.put(machine, listed, value)
    before = listed.element, listed.items
    listed.blend(*listed.parts(), value)
    listed.element = join(listed.any(), value)
    listed.items = None
    machine.stores += before != (listed.element, None)


def set_item(machine: Machine, table: Mapping, key: object, value: Value) -> None:
    """An entry of a dictionary; None: under a key that is not known."""
    if key is not None:
        if table.rest is not None and key not in table.items:
            value = anything.or_another(value)  # there may have been one, which this line leaves if it is not come to
        machine.keep(table.items, key, value, table)
        return
    anything.put(machine, table.items, value, table)
    if table.whose is not None:
        machine.anything.add(table.whose)
    pooling.put(machine, table, value)
    before = table.rest
    table.rest = join(before or NOTHING, value)
    machine.stores += before != table.rest


def set_key(machine: Machine, table: Mapping, key: Value) -> None:
    """There is an entry under this key now, if there was none: whether it is found depends on what the key does."""
    if not key.sources or key.constant() is not None:
        return
    pooling.put(machine, table, key)
    before = table.keys
    table.keys = join(before or NOTHING, Value(scale=key.scale, sources=key.sources))
    machine.stores += before != table.keys


def update(machine: Machine, table: Mapping, other: Value) -> None:
    """`table.update(other)`, of a dictionary or of pairs; one that is not known may have any key."""
    if not all(isinstance(one, (Mapping, Sequence, Passing)) for one in other.objs) or not other.objs or other.open:
        anything = Value(sources=other.sources, open=True)
        for key in (*table.items, None):
            set_item(machine, table, key, anything)
    for one in other.objs:
        if isinstance(one, Sequence):
            for pair in one.parts():
                _add_pair(machine, table, pair)
        if isinstance(one, Passing) and len(one.zipped) == 2:  # `dict(zip(names, values))`
            set_item(machine, table, None, one.zipped[1])
        if isinstance(one, Mapping):
            for key, value in list(one.items.items()):
                set_item(machine, table, key, machine.tainted(value))
            if one.rest is not None:
                set_item(machine, table, None, one.rest)


def _add_pair(machine: Machine, table: Mapping, pair: Value) -> None:
    for one in pair.objs:
        if isinstance(one, Sequence) and one.items is not None and len(one.items) == 2:
            set_item(machine, table, one.items[0].constant(), one.items[1])


def fill(machine: Machine, node: cst.BaseExpression, batch: Value) -> None:
    """`images.data.resize_(…).copy_(batch)`: a buffer that a batch is copied into holds that batch.

    Of an item, it is what may be held.
    """
    if batch.scale is Scale.CONST:
        return
    while isinstance(node, (cst.Call, cst.Attribute)):
        inner = node.func if isinstance(node, cst.Call) else node.value
        if isinstance(node, cst.Attribute) and isinstance(inner, cst.Name):
            _fill_name(machine, inner.value, node.attr.value, batch)
        node = inner
    if isinstance(node, cst.Subscript):
        for held in machine.values.get(node.value, NOTHING).objs:
            if isinstance(held, Sequence):
                append(machine, held, batch)
            elif isinstance(held, Mapping):
                set_item(machine, held, _key(machine, node), batch)


def _fill_name(machine: Machine, name: str, attribute: str, batch: Value) -> None:
    if name not in machine.frame.env:
        around = machine.holder(name).env  # of the function around this one
        if name in around:
            machine.summaries.clear()
            machine.keep(around, name, batch)
        return
    holders = [obj for obj in machine.frame.env[name].objs if isinstance(obj, Instance)]
    for obj in holders:
        machine.stores += obj.attributes.get(attribute) != batch
        obj.attributes[attribute] = batch
    if not holders:
        machine.bind(name, batch)


def relate(machine: Machine, place: cst.BaseExpression, into: Value, value: Value) -> None:
    """What relates the samples of a batch is written into the tensor at `place`, which has an entry for each."""
    if into.scale in PER_SAMPLE:
        related = Value(scale=Scale.COUPLED, sources=into.sources | value.sources)
        fill(machine, cst.Attribute(place, cst.Name("data")), related)


def reordered(machine: Machine, name: str, call: cst.CSTNode) -> None:
    """`losses.sort()`, `rng.shuffle(losses)`: where they lie, and not in a copy that something takes."""
    if not isinstance(call, cst.Call) or not isinstance(machine.frame.module.parents.get(call), cst.Expr):
        return
    shuffled = call.args[0].value if name in in_place.SHUFFLING and call.args else None
    place = call.func.value if shuffled is None and isinstance(call.func, cst.Attribute) else shuffled
    if place is not None:
        into = machine.values.get(place, NOTHING)
        relate(machine, place, into, into)


def entry_of(over: Value) -> Value:
    """What going through a value may give: a part of a batch gives its samples."""
    item = any_item(over)
    if SEVERAL in item.sources:
        return parts.computed(item)  # one of several tensors: `x.chunk(2, dim=1)`
    a_part = over.scale is item.scale is Scale.SAMPLES and PART in over.sources and not over.objs
    return replace(item, objs=ENTRY) if a_part else item


def _key(machine: Machine, node: cst.Subscript) -> object:
    index = node.slice[0].slice
    return machine.values.get(index.value, NOTHING).constant() if isinstance(index, cst.Index) else None


# ---- what they hold


def part_of_shape(shape: Shape, value: Value, position: object) -> Value:
    """`x.shape[0]`: the number of samples, or one that a share has in common with its batch."""
    if position == shape.along:
        return Value(SIZE if value.scale is Scale.COUNT else EMPTY, value.scale, value.sources)
    return Value(sources=forms.beside_the_count(value))


def item(value: Value, position: int, count: int) -> Value:
    """The item at `position` of what is unpacked into `count`"""
    found = []
    for obj in value.objs:
        if isinstance(obj, Sequence) and obj.items is not None and len(obj.items) == count:
            found.append(obj.items[position])
        elif (row := items_of(obj)) is not None and len(row) == count:
            found.append(row[position])
        elif isinstance(obj, Shape):
            found.append(part_of_shape(obj, value, position))
        elif isinstance(obj, Passing) and obj.zipped and len(obj.zipped) == count:
            found.append(obj.zipped[position])
        else:
            found.append(any_item(value.of(obj.alone)))
    if found:
        return join(*found)
    if (told := parts.of_labels(value, position)) is not None:
        return told
    if value.scale is Scale.TURNED and SEVERAL not in value.sources:  # `q, k, v = qkv`: it has such a dimension less
        return Value(scale=Scale.SAMPLES, sources=value.sources, dims=max(value.dims - 1, 0))
    known = [PIECE] if PART in value.sources else [PART]
    sources = value.sources | known if value.scale in PER_SAMPLE else value.sources
    one_row = value.one_row and (count > 1 or PART not in value.sources)  # such a tensor has no several things
    part = Value(scale=value.scale, sources=sources, one_row=one_row)
    return parts.computed(part) if SEVERAL in part.sources else part


def members(value: Value) -> Value:
    """What decides whether something is in it: the items of a list or set, the keys of a dictionary."""
    held = [obj for obj in value.objs if isinstance(obj, (Sequence, Mapping))]
    found = (obj.any() if isinstance(obj, Sequence) else obj.keys or NOTHING for obj in held)
    return join(*(Value(scale=one.scale, sources=one.sources) for one in found))


def flat(values: Iterable[Value]) -> list[Value]:
    """`view(a, b)` may be given `view((a, b))`: the items, where they are known."""
    found: list[Value] = []
    for value in values:
        only = value.single()
        found += only.items if isinstance(only, Sequence) and only.items is not None else (value,)
    return found


def any_item(value: Value) -> Value:
    """What indexing with something unknown, or iterating, may give."""
    found = []
    for obj in value.objs:
        if isinstance(obj, (Sequence, Mapping)):
            found.append(obj.any())
        elif isinstance(obj, Parameters):
            found.append(Value(obj.alone))
        elif isinstance(obj, Instance) and obj.holds is not None:
            found.append(obj.holds.any())
        elif (inside := modules.held_by(obj)) is not None:
            found.append(inside)
        elif isinstance(obj, (External, Instance)) and not value.sources:
            found.append(Value(obj.alone if isinstance(obj, External) else EMPTY))
    if value.scale is not Scale.CONST or value.sources or not found:
        turned = value.scale is Scale.TURNED and not value.objs  # a tensor, which has such a dimension more
        scale, dims = (Scale.SAMPLES, max(value.dims - 1, 0)) if turned else (value.scale, _dims_of(found))
        found.append(Value(scale=scale, sources=value.sources, dims=dims))
    return join(*found)


def _dims_of(items: list[Value]) -> int:
    """How many dimensions each of the items has at least."""
    return min((one.dims for one in items), default=0)


def double_starred(arguments: Arguments) -> Value | None:
    """What `**batch` may give a parameter, of whose name it is not seen whether it is there."""
    more = arguments.double_star
    seen = more is None or any(isinstance(obj, Mapping) for obj in more.objs)
    value = arguments.unseen if seen or more is None else any_item(more)
    return replace(value, open=True) if value is not None and not value.objs else value


def mapped(
    machine: Machine, value: Value, node: cst.CSTNode, how: str, change: Callable[[Value], Value]
) -> Ordered[Obj]:
    """The objects of a value; in place of lists and dictionaries, others with what `change` makes of each part."""
    objs: list[Obj] = []
    for obj in value.objs:
        if isinstance(obj, Sequence):
            listed = machine.made(Sequence, node, obj, how, per_sample=obj.per_sample, mixed=obj.mixed)
            listed.names = obj.names
            listed.items = tuple(map(change, obj.items)) if obj.items is not None else None
            listed.element = change(obj.element) if obj.element is not None else None
            objs.append(listed)
        elif isinstance(obj, Mapping):
            table = machine.made(Mapping, node, obj, how)
            table.items = Table((key, change(item)) for key, item in obj.items.items())
            table.rest = change(obj.rest) if obj.rest is not None else None
            objs.append(table)
        else:
            objs.append(obj)
    return Ordered(objs)


# ---- records


def fields(cls: Class) -> tuple[str, ...]:
    """The annotated names of a class and its bases, in order; those of a named tuple."""
    found: dict[str, None] = {}
    for one in reversed(cls.order):
        found.update(dict.fromkeys(one.fields))
        for statement in one.node.body.body if one.node is not None else ():
            for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
                if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name):
                    found[small.target.value] = None
    return tuple(found)


def items_of(obj: Obj) -> tuple[Value, ...] | None:
    """The items of a named tuple."""
    cls = obj.of if isinstance(obj, Instance) else None
    if cls is None or not cls.derives_from(*python.TUPLES):
        return None
    return tuple(obj.attributes.get(name, NOTHING) for name in fields(cls))


def held(machine: Machine, obj: Obj) -> Sequence | Mapping | None:
    """The list or dictionary that an object of a subclass of list or dict is."""
    if not isinstance(obj, Instance) or obj.of is None:
        return None
    if obj.holds is None and obj.of.derives_from(*python.DICTIONARIES):
        obj.holds = machine.made(Mapping, None, obj, "held")
    elif obj.holds is None and obj.of.derives_from(*python.LIST_BASES):
        obj.holds = machine.made(Sequence, None, obj, "held")
    return obj.holds


def as_attribute(machine: Machine, obj: Instance, name: str, method: Value | None) -> Value | None:
    """`__getattr__ = dict.__getitem__`: the item of this name, if the class has that."""
    table = held(machine, obj) if method is not None and _are_named(method, python.GIVES_ITEMS) else None
    return table.items.get(name, table.rest) if isinstance(table, Mapping) else None


def set_as_attribute(machine: Machine, obj: Instance, name: str, value: Value) -> bool:
    """`__setattr__ = dict.__setitem__`: whether the class has that, and so another item."""
    method = obj.of.member("__setattr__") if obj.of is not None else None
    table = held(machine, obj) if method is not None and _are_named(method, python.SETS_ITEMS) else None
    if isinstance(table, Mapping):
        set_item(machine, table, name, value)
    return isinstance(table, Mapping)


def _are_named(method: Value, names: frozenset[str]) -> bool:
    return bool(method.objs) and all(isinstance(one, (Ref, External)) and one.name in names for one in method.objs)


def begin(machine: Machine, obj: Instance, arguments: Arguments) -> None:
    """What the `__init__` of `list` or `dict` puts into an object of a class derived from it."""
    table = held(machine, obj)
    if isinstance(table, Mapping):
        update(machine, table, join(*arguments.positional))
        for name, value in {**arguments.expanded(), **arguments.keywords}.items():
            machine.keep(table.items, name, value, table)
    elif table is not None and arguments.positional:
        append(machine, table, any_item(arguments.positional[0]))
