"""Assignment, unpacking, and what iteration yields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.events import Kind
from distify_codemods.interpreter import (
    attributes,
    calls,
    classes,
    expressions,
    graph,
    holding,
    modules,
    parts,
    records,
    reductions,
    scales,
    state,
    subscripts,
    ways,
)
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.values import (
    NOTHING,
    PART,
    PER_SAMPLE,
    SEVERAL,
    SIZE,
    Arguments,
    Bound,
    Class,
    Counter,
    External,
    Instance,
    Local,
    Mapping,
    Obj,
    Parameters,
    Passing,
    Scale,
    Sequence,
    Shape,
    Value,
    core,
    join,
)

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def assign(machine: Machine, target: cst.BaseExpression, value: Value) -> None:
    if isinstance(target, cst.Name):
        machine.bind(target.value, value)
        machine.values[target] = join(machine.values.get(target, NOTHING), value)
    elif isinstance(target, (cst.Tuple, cst.List)):
        count = len(target.elements)
        for position, element in enumerate(target.elements):
            if isinstance(element, cst.StarredElement):
                assign(machine, element.value, any_item(value))
            else:
                assign(machine, element.value, item(value, position, count))
    elif isinstance(target, cst.Attribute):
        value = state.stored(machine, target, machine.tainted(value), attributes.LOADERS)
        receiver = expressions.evaluate(machine, target.value)
        machine.event(
            Kind.STORE, target, name=target.attr.value, receiver=receiver, receiver_node=target.value, value=value
        )
        for obj in receiver.objs:
            holder = core(obj)
            if isinstance(holder, Local) and holder.target is not None:
                machine.keep(machine.module_frame(holder.target).env, target.attr.value, value)
            elif isinstance(holder, (Instance, External, Class)):
                classes.store(machine, holder, target.attr.value, value, target)
    elif isinstance(target, cst.Subscript):
        _assign_item(machine, target, value)


def _assign_item(machine: Machine, target: cst.Subscript, value: Value) -> None:
    receiver = expressions.evaluate(machine, target.value)
    value = machine.tainted(value)
    key = NOTHING
    for element in target.slice:
        if isinstance(element.slice, cst.Index):
            key = expressions.evaluate(machine, element.slice.value)
        else:
            subscripts.evaluate_slice(machine, element.slice)
    machine.event(Kind.STORE, target, name="[]", receiver=receiver, receiver_node=target.value, value=value)
    state.written(machine, target.value, target, value, attributes.LOADERS)
    for one in receiver.objs:
        _call_own(machine, one, "__setitem__", [key, value], target)
    for obj in [records.held(machine, one) or one for one in receiver.objs]:
        if isinstance(obj, External) and isinstance(key.constant(), str):
            classes.store(machine, obj, str(key.constant()), value, target)
        elif isinstance(obj, Mapping):
            holding.set_item(machine, obj, key.constant(), ways.chosen(value, key))
        elif isinstance(obj, Sequence):
            one_by_one = any(isinstance(element.slice, cst.Slice) for element in target.slice)
            holding.append(machine, obj, ways.chosen(any_item(value) if one_by_one else value, key))
    if machine.tracing and not receiver.objs and isinstance(target.value, cst.Name):
        machine.bind(target.value.value, graph.stored(receiver, value))


def _call_own(machine: Machine, obj: Obj, name: str, given: list[Value], node: cst.CSTNode) -> Value:
    """What a special method of the script's own returns; nothing where a class has none."""
    method = classes.attribute(machine, obj, name, NOTHING, None) if isinstance(obj, Instance) else NOTHING
    own = method.of(one for one in method.objs if isinstance(one, Bound))
    return calls.call(machine, own, Arguments(given), node) if own.objs else NOTHING


def fill(machine: Machine, node: cst.BaseExpression, batch: Value) -> None:
    """`images.data.resize_(…).copy_(batch)`: a buffer that a batch is copied into holds that batch.

    Of an item, it is what may be held.
    """
    if batch.scale is Scale.CONST:
        return
    while isinstance(node, (cst.Call, cst.Attribute)):
        inner = node.func if isinstance(node, cst.Call) else node.value
        if isinstance(node, cst.Attribute) and isinstance(inner, cst.Name) and inner.value in machine.frame.env:
            holders = [obj for obj in machine.frame.env[inner.value].objs if isinstance(obj, Instance)]
            for obj in holders:
                machine.stores += obj.attributes.get(node.attr.value) != batch
                obj.attributes[node.attr.value] = batch
            if not holders:
                machine.bind(inner.value, batch)
        node = inner
    if isinstance(node, cst.Subscript):
        for held in machine.values.get(node.value, NOTHING).objs:
            if isinstance(held, Sequence):
                holding.append(machine, held, batch)
            elif isinstance(held, Mapping):
                holding.set_item(machine, held, _key(machine, node), batch)


def _key(machine: Machine, node: cst.Subscript) -> object:
    index = node.slice[0].slice
    return machine.values.get(index.value, NOTHING).constant() if isinstance(index, cst.Index) else None


def augment(machine: Machine, node: cst.AugAssign) -> None:
    current = expressions.evaluate(machine, node.target)
    operand = expressions.evaluate(machine, node.value)
    operator = type(node.operator).__name__.replace("Assign", "")
    own = [_call_own(machine, obj, f"__i{operator.lower()}__", [operand], node) for obj in current.objs]
    for obj in current.objs:
        if isinstance(obj, Sequence):
            holding.append(machine, obj, any_item(operand))
        elif isinstance(obj, Mapping) and operator == "BitOr":
            holding.update(machine, obj, operand)
    if machine.reducing is not None:
        machine.values[node] = join(machine.values.get(node, NOTHING), current)  # the target's is what it becomes
        if node in machine.reducing.nodes:
            current = reductions.reduced(machine, current, node)
    value = reductions.marked(machine, scales.binary(operator, current, operand), node)
    if machine.cutting is not None:
        moved = machine.made(Counter, node, loop=None)
        value = Value(value.objs, value.scale, value.sources | [moved], value.mask, deep=value.deep)
    if any(isinstance(obj, Parameters) for obj in current.objs):  # in place, as if it were `.data`
        machine.event(Kind.STORE, node.target, name="data", receiver=current, receiver_node=node.target, value=value)
    held = Ordered(obj for obj in current.objs if isinstance(obj, (Sequence, Mapping, Parameters)))
    left: Ordered[Obj] = Ordered[Obj](held).union(*(one.objs for one in own))
    assign(machine, node.target, Value(left, value.scale, value.sources))


def item(value: Value, position: int, count: int) -> Value:
    """The item at `position` of what is unpacked into `count` targets."""
    found = []
    for obj in value.objs:
        if isinstance(obj, Sequence) and obj.items is not None and len(obj.items) == count:
            found.append(obj.items[position])
        elif (row := records.items_of(obj)) is not None and len(row) == count:
            found.append(row[position])
        elif isinstance(obj, Shape):
            found.append(Value(SIZE, Scale.COUNT, value.sources) if position == 0 else Value(sources=value.sources))
        elif isinstance(obj, Passing) and obj.zipped and len(obj.zipped) == count:
            found.append(obj.zipped[position])
        else:
            found.append(any_item(Value(obj.alone, value.scale, value.sources)))
    if found:
        return join(*found)
    part = Value(scale=value.scale, sources=value.sources | [PART] if value.scale in PER_SAMPLE else value.sources)
    return parts.computed(part) if SEVERAL in part.sources else part


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
        if isinstance(obj, Sequence):
            found += [*(obj.items or ()), obj.element or NOTHING]
        elif isinstance(obj, Mapping):
            found.append(obj.any())
        elif isinstance(obj, Parameters):
            found.append(Value(obj.alone))
        elif (inside := modules.held_by(obj)) is not None:
            found.append(inside)
        elif isinstance(obj, (External, Instance)) and not value.sources:
            found.append(Value(obj.alone if isinstance(obj, External) else EMPTY))
    if value.scale is not Scale.CONST or value.sources or not found:
        found.append(Value(scale=value.scale, sources=value.sources))
    return join(*found)
