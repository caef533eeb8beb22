"""Assignment, unpacking, and what iteration yields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.events import Kind
from distify_codemods.interpreter import attributes, expressions, scales, subscripts
from distify_codemods.values import (
    NOTHING,
    Const,
    Counter,
    External,
    Instance,
    Local,
    Mapping,
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
        value = machine.tainted(value)
        receiver = expressions.evaluate(machine, target.value)
        machine.event(
            Kind.STORE, target, name=target.attr.value, receiver=receiver, receiver_node=target.value, value=value
        )
        for obj in receiver.objs:
            holder = core(obj)
            if isinstance(holder, Local) and holder.target is not None:
                env = machine.module_frame(holder.target).env
                env[target.attr.value] = join(env.get(target.attr.value, NOTHING), value)
            elif isinstance(holder, (Instance, External)):
                holder.attributes[target.attr.value] = join(holder.attributes.get(target.attr.value, NOTHING), value)
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
    for obj in receiver.objs:
        if isinstance(obj, Mapping):
            name = key.constant()
            if name is not None:
                obj.items[name] = join(obj.items.get(name, NOTHING), value)
            else:
                obj.rest = join(obj.rest or NOTHING, value)
        elif isinstance(obj, Sequence):
            obj.element = join(any_item(Value(frozenset({obj}))), value)
            obj.items = None


def augment(machine: Machine, node: cst.AugAssign) -> None:
    current = expressions.evaluate(machine, node.target)
    operand = expressions.evaluate(machine, node.value)
    operator = type(node.operator).__name__.replace("Assign", "")
    for obj in current.objs:
        if isinstance(obj, Sequence):
            obj.element = join(any_item(Value(frozenset({obj}))), any_item(operand))
            obj.items = None
    value = scales.binary(operator, current, operand)
    if machine.cutting is not None:
        moved = machine.made(Counter, node, loop=None)
        value = Value(value.objs, value.scale, value.sources | {moved}, value.mask, value.deep)
    held = frozenset(obj for obj in current.objs if isinstance(obj, (Sequence, Parameters)))
    assign(machine, node.target, Value(held, value.scale, value.sources))


def item(value: Value, position: int, count: int) -> Value:
    """The item at `position` of what is unpacked into `count` targets."""
    found = []
    for obj in value.objs:
        if isinstance(obj, Sequence) and obj.items is not None and len(obj.items) == count:
            found.append(obj.items[position])
        elif isinstance(obj, Shape):
            found.append(Value(scale=Scale.COUNT if position == 0 else Scale.CONST, sources=value.sources))
        elif isinstance(obj, Passing) and obj.zipped and len(obj.zipped) == count:
            found.append(obj.zipped[position])
        else:
            found.append(any_item(Value(frozenset({obj}), value.scale, value.sources)))
    return join(*found) if found else Value(scale=value.scale, sources=value.sources)


def any_item(value: Value) -> Value:
    """What indexing with something unknown, or iterating, may give."""
    found = []
    for obj in value.objs:
        if isinstance(obj, Sequence):
            found += [*(obj.items or ()), obj.element or NOTHING]
        elif isinstance(obj, Mapping):
            found.append(obj.any())
        elif isinstance(obj, Parameters):
            found.append(Value(frozenset({obj})))
        elif isinstance(obj, (External, Instance)) and not value.sources:
            found.append(Value(frozenset({obj}) if isinstance(obj, External) else frozenset()))
    if value.scale is not Scale.CONST or value.sources or not found:
        found.append(Value(scale=value.scale, sources=value.sources))
    return join(*found)


def element_of(machine: Machine, over: Value, loop: cst.CSTNode) -> Value:
    """What one turn of a loop over `over` gets."""
    found = []
    for obj in over.objs:
        if isinstance(obj, Passing):
            found.append(_passed(machine, obj, loop))
        elif isinstance(obj, External) and obj.name in attributes.LOADERS:
            found.append(batch_of(machine, obj))
        elif isinstance(obj, External) and obj.name in ("builtins.range", "itertools.count"):
            counter = machine.made(Counter, loop, loop=loop if isinstance(loop, cst.For) else None)
            moving = frozenset({counter}) if machine.cutting is not None else frozenset()
            found.append(Value(frozenset({counter}), over.scale, over.sources | moving))
        elif isinstance(obj, Mapping):
            found.append(Value(frozenset(machine.made(Const, loop, key, value=key) for key in obj.items)))
        elif isinstance(obj, Instance):
            found.append(attributes.iterate_instance(machine, obj, loop))
        else:
            found.append(any_item(Value(frozenset({obj}), over.scale, over.sources)))
    return join(*found) if found else any_item(over)


def _passed(machine: Machine, obj: Passing, loop: cst.CSTNode) -> Value:
    if obj.zipped:
        items = tuple(element_of(machine, value, loop) for value in obj.zipped)
        return Value(frozenset({machine.made(Sequence, loop, "zip", items=items)}))
    inner = element_of(machine, obj.over or NOTHING, loop)
    if not obj.numbered:
        return inner
    counter = machine.made(Counter, loop, loop=loop if isinstance(loop, cst.For) else None)
    number = Value(frozenset({counter}), sources=frozenset({counter}) if machine.cutting is not None else frozenset())
    pair = machine.made(Sequence, loop, "enumerate", obj, items=(number, inner))
    assert isinstance(pair, Sequence)
    pair.items = (number, join(pair.items[1], inner) if pair.items else inner)
    return Value(frozenset({pair}))


def batch_of(machine: Machine, loader: External) -> Value:
    return Value(scale=Scale.SAMPLES, sources=frozenset({loader}))
