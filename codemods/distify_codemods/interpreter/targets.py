"""Assignment, unpacking, and what iteration yields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj
from distify_codemods.events import Kind
from distify_codemods.inside import core
from distify_codemods.interpreter import (
    anything,
    changing,
    classes,
    dimensions,
    evidence,
    forms,
    graph,
    holding,
    lengths,
    modules,
    one_by_one,
    other_names,
    rearranged,
    reductions,
    scales,
    search_path,
    single_rows,
    special,
    state,
    storages,
    storing,
    subscripts,
    tensors,
    ways,
)
from distify_codemods.libraries import torch_data
from distify_codemods.objects import (
    Class,
    External,
    Instance,
    Mapping,
    Parameters,
    Sequence,
    Setting,
)
from distify_codemods.ordered import Ordered
from distify_codemods.origins import IGNORED, Counter, Zero
from distify_codemods.scale import FIGURES, PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value, gpu_texts, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def assign(machine: Machine, target: cst.BaseExpression, value: Value) -> None:
    if isinstance(target, cst.Name):
        machine.bind(target.value, value)
        machine.values.grow(target, join(dict.get(machine.values, target, NOTHING), value))
    elif isinstance(target, (cst.Tuple, cst.List)):
        count = len(target.elements)
        dimensions.unpacked(machine, target)
        for position, element in enumerate(target.elements):
            if isinstance(element, cst.StarredElement):
                assign(machine, element.value, rearranged.rest_of(machine, value, element))
            else:
                assign(machine, element.value, holding.item(value, position, count))
    elif isinstance(target, cst.Attribute):
        value = state.stored(machine, target, machine.tainted(value), torch_data.LOADERS)
        receiver = machine.evaluate(target.value)
        search_path.stored(machine, target, receiver, value)
        machine.event(
            Kind.STORE, target, name=target.attr.value, receiver=receiver, receiver_node=target.value, value=value
        )
        for holder in map(core, receiver.objs):
            if isinstance(holder, (Instance, External, Class)):
                other_names.keep(machine, holder, target)
        storing.set_attribute(machine, receiver, target.attr.value, value, target)
        _renew(machine, target, receiver, value)
    elif isinstance(target, cst.Subscript):
        _assign_item(machine, target, value)


def _renew(machine: Machine, target: cst.Attribute, receiver: Value, value: Value) -> None:
    """`delta.data = delta.data + delta.grad`: a tensor under a name has other numbers from here on."""
    tensor = all(isinstance(obj, Zero) for obj in receiver.objs)
    if target.attr.value == "data" and isinstance(target.value, cst.Name) and tensor and value.sources:
        machine.bind(target.value.value, value)


def _assign_item(machine: Machine, target: cst.Subscript, value: Value) -> None:
    receiver = machine.evaluate(target.value)
    value = machine.tainted(value)
    search_path.stored(machine, target, receiver, value)
    keys = [
        machine.evaluate(element.slice.value)
        if isinstance(element.slice, cst.Index)
        else subscripts.evaluate_slice(machine, element.slice)
        for element in target.slice
    ]
    key = keys[-1] if isinstance(target.slice[-1].slice, cst.Index) else NOTHING
    machine.event(Kind.STORE, target, name="[]", receiver=receiver, receiver_node=target.value, value=value)
    state.written(
        machine, target.value, target, value.adding(join(*keys).sources), torch_data.LOADERS,
        adds=_is_added_to(machine, target, keys),
        anywhere=any(state.of_a_share(key, torch_data.LOADERS) for key in keys),
        in_order=any(key.scale is Scale.COUNT for key in keys),
    )  # fmt: skip
    changing.written(machine, target, receiver, keys, value)
    single_rows.written(machine, target, receiver, keys[0], value)
    related = any(one.scale is Scale.COUPLED for one in (value, *keys)) and not any(
        isinstance(one, Counter) for one in keys[0].objs
    )  # where a loop goes through samples, each has its own
    if related or (value.scale in FIGURES and _is_of_all_rows(target)):
        holding.relate(machine, target.value, receiver, value)
    for one in receiver.objs:
        modules.put(machine, one, value)
        special.called(machine, one, "__setitem__", [key, value], target)
    if isinstance(target.value, cst.Name) and tensors.with_ignored(receiver, [value]) is not receiver:
        machine.bind(target.value.value, receiver.adding([IGNORED]))
    if any(isinstance(element.slice, cst.Slice) for element in target.slice):
        forms.resized(machine, receiver, value)
    for obj in [holding.held(machine, one) or one for one in receiver.objs]:
        if isinstance(obj, External) and isinstance(key.constant(), str):
            classes.store(machine, obj, str(key.constant()), value, target)
        elif isinstance(obj, External):
            anything.put(machine, obj.attributes, value, obj)
        elif isinstance(obj, Mapping):
            holding.set_item(machine, obj, key.constant(), ways.chosen(value, key))
            holding.set_key(machine, obj, key)
        elif isinstance(obj, Sequence):
            one_by_one = any(isinstance(element.slice, cst.Slice) for element in target.slice)
            if one_by_one or type(key.constant()) is int:
                rearranged.changed(machine, obj, target.value, target)
            holding.append(machine, obj, ways.chosen(holding.any_item(value) if one_by_one else value, key))
    if machine.tracing and not receiver.objs and isinstance(target.value, cst.Name):
        machine.bind(target.value.value, graph.stored(receiver, value))


def _is_of_all_rows(target: cst.Subscript) -> bool:
    """`x[:, 2:4] = ...`"""
    first = target.slice[0].slice
    return isinstance(first, cst.Slice) and first.lower is None and first.upper is None


def _is_added_to(machine: Machine, target: cst.Subscript, keys: list[Value]) -> bool:
    """Each time that it is named; of many keys at once, one that comes twice is added to once."""
    statement = machine.frame.module.parents.get(target)
    adds = isinstance(statement, cst.AugAssign) and isinstance(statement.operator, cst.AddAssign)
    return adds and not any(key.scale in PER_SAMPLE for key in keys)


def counted(machine: Machine, target: cst.BaseExpression, value: Value, node: cst.Assign) -> Value:
    """`start = start + size`, as `start += size`."""
    counting = machine.cutting is not None or machine.evidence
    if isinstance(node.value, cst.BinaryOperation) and _is_of_itself(target, node.value):
        left, right = (machine.values.get(one, NOTHING) for one in (node.value.left, node.value.right))
        value = _counting(machine, target, left, right, value)
    if not counting or not isinstance(node.value, cst.BinaryOperation) or not _is_a_number(value):
        return value
    return _moved(machine, value, node) if _is_of_itself(target, node.value) else value


def _is_of_itself(target: cst.BaseExpression, made: cst.BinaryOperation) -> bool:
    name = tree.dotted(target)
    return bool(name) and name in map(tree.dotted, (made.left, made.right))


def _counting(machine: Machine, target: cst.BaseExpression, current: Value, operand: Value, value: Value) -> Value:
    """`n += 1` in turns over samples: as many as there are, or some of them."""
    counts = current.scale is Scale.SUM or _is_a_number(current)
    if not _is_a_number(operand) or not counts:
        return value
    turns = one_by_one.counted(machine, target)
    return Value(scale=turns.scale, sources=value.sources | turns.sources) if turns is not None else value


def _moved(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    moved = machine.made(Counter, node, loop=None)
    return Value(value.objs, value.scale, value.sources | [moved], value.mask, dims=value.dims)


def _is_a_number(value: Value) -> bool:
    """One that says nothing of samples, as what counts the turns of a loop."""
    return value.scale is Scale.CONST and all(isinstance(obj, (Const, Counter, Setting)) for obj in value.objs)


def augment(machine: Machine, node: cst.AugAssign) -> None:
    current = machine.evaluate(node.target)
    operand = machine.evaluate(node.value)
    search_path.grown(machine, current, operand, node)
    operator = type(node.operator).__name__.replace("Assign", "")
    own = [special.in_place(machine, node.operator, obj, operand, node) for obj in current.objs]
    forms.resized(machine, current, operand if operator == "Add" else forms.by_chance(operand))
    if operator == "Add":
        lengths.changed(machine, current, node, operand)
    for obj in current.objs:
        if isinstance(obj, Sequence):
            holding.append(machine, obj, holding.entry_of(operand))
        elif isinstance(obj, Mapping) and operator == "BitOr":
            holding.update(machine, obj, operand)
    if machine.reducing is not None:
        # The target's value is what it becomes.
        machine.values.grow(node, join(dict.get(machine.values, node, NOTHING), current))
        if node in machine.reducing.nodes:
            current = reductions.reduced(machine, current, node)
    value = reductions.marked(machine, scales.binary(operator, current, operand), node).adding(
        gpu_texts((current, operand))
    )
    if machine.evidence:
        value = storages.added(machine, current, evidence.followed(machine, value, node), node)
    value = _counting(machine, node.target, current, operand, value)
    if machine.cutting is not None or (machine.evidence and _is_a_number(value)):
        value = _moved(machine, value, node)
    if any(isinstance(obj, Parameters) for obj in current.objs):  # in place, as if it were `.data`
        machine.event(Kind.STORE, node.target, name="data", receiver=current, receiver_node=node.target, value=value)
    held = Ordered(obj for obj in current.objs if isinstance(obj, (Sequence, Mapping, Parameters)))
    left: Ordered[Obj] = Ordered[Obj](held).union(*(one.objs for one in own))
    if isinstance(node.target, cst.Name) and not left:
        state.added(machine, node.target, operand, value, torch_data.LOADERS)
        changing.changed(machine, node.target, current, operand)
    returned = join(*own)
    alone = bool(returned.objs) and all(isinstance(obj, Instance) for obj in current.objs)
    assign(machine, node.target, returned if alone else value.of(left))
