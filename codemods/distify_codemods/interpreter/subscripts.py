"""`thing[key]`: items of containers, parts of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.events import Kind
from distify_codemods.interpreter import cuts, forms, holding, modules, parts, ranks, scales, ways
from distify_codemods.libraries import python
from distify_codemods.ordered import EMPTY
from distify_codemods.values import (
    NOTHING,
    PART,
    PER_SAMPLE,
    SIZE,
    Arguments,
    External,
    Instance,
    Mapping,
    Obj,
    Ref,
    Scale,
    Sequence,
    Shape,
    Value,
    Wrapped,
    core,
    join,
)

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def subscript(machine: Machine, node: cst.Subscript) -> Value:
    receiver = machine.evaluate(node.value)
    keys = [
        machine.evaluate(element.slice.value)
        if isinstance(element.slice, cst.Index)
        else evaluate_slice(machine, element.slice)
        for element in node.slice
    ]
    if any(isinstance(obj, (Instance, External, Wrapped)) or _is_environment(obj) for obj in receiver.objs):
        machine.event(Kind.ATTRIBUTE, node, name="[]", receiver=receiver, receiver_node=node.value)
    if machine.cutting is not None and (cut := cuts.rows(machine, receiver, node, keys)) is not None:
        return forms.part(machine, node, keys, cut)
    only_index = len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index)
    known = keys[0].constant() if only_index else None
    found = [_item_of(machine, obj, known, only_index, receiver, node) for obj in receiver.objs]
    if found and not all(value is NOTHING for value in found):
        value = ways.chosen(join(*found), join(*keys))
        return value if only_index else forms.part(machine, node, keys, value)
    return forms.part(machine, node, keys, _tensor_item(machine, receiver, node, keys))


def _is_environment(obj: Obj) -> bool:
    return isinstance(obj, Ref) and obj.name == python.ENVIRONMENT


def _item_of(
    machine: Machine, obj: Obj, known: object, only_index: bool, receiver: Value, node: cst.Subscript
) -> Value:
    own = Value(obj.alone, receiver.scale, receiver.sources)
    if isinstance(obj, Sequence):
        if isinstance(known, int) and obj.items is not None and -len(obj.items) <= known < len(obj.items):
            return obj.items[known]
        return holding.any_item(own) if only_index else own
    if isinstance(obj, Instance):
        return _item_of_instance(machine, obj, known, only_index, receiver, node)
    if isinstance(obj, Mapping) and obj.factory is not None and (known not in obj.items if known else not obj.rest):
        made = machine.call(obj.factory, Arguments(), node)
        holding.set_item(machine, obj, known, made)
    if isinstance(obj, External) and isinstance(known, str) and known in obj.attributes:
        return obj.attributes[known]
    if isinstance(obj, Mapping):
        return obj.items[known] if known in obj.items else obj.any() if known is None else obj.rest or NOTHING
    if isinstance(obj, Ref) and obj.name == python.ENVIRONMENT:
        return Value(sources=ranks.of_variable(known))
    if isinstance(obj, Shape):
        if not only_index:
            return Value(sources=receiver.sources)
        return Value(SIZE, Scale.COUNT, receiver.sources) if known == 0 else Value(sources=receiver.sources)
    inner = core(obj)
    inside = modules.held_by(inner, known) if only_index else None
    if inside is not None:
        return inside
    if isinstance(inner, External) and not receiver.sources:
        part = machine.made(External, node, inner, name=f"{inner.name}[]", whole=inner)
        return Value(part.alone)
    return NOTHING


def _item_of_instance(
    machine: Machine, obj: Instance, known: object, only_index: bool, receiver: Value, node: cst.Subscript
) -> Value:
    """`obj[key]` with a `__getitem__` of the class's own, or of the dict or tuple that it derives from."""
    row = holding.items_of(obj)
    if row is not None and isinstance(known, int) and -len(row) <= known < len(row):
        return row[known]
    method = machine.attribute(obj, "__getitem__")
    if method.objs and only_index:
        index = node.slice[0].slice
        assert isinstance(index, cst.Index)
        key = machine.values.get(index.value, NOTHING)
        return machine.call(method, Arguments([key]), node)
    table = holding.held(machine, obj)
    return _item_of(machine, table, known, only_index, receiver, node) if table is not None else NOTHING


_PARTS = range(8)  # of a batch; a negative index is more often that of a sample


def _tensor_item(machine: Machine, receiver: Value, node: cst.Subscript, keys: list[Value]) -> Value:
    sources = receiver.sources.union(*(key.sources for key in keys))
    scale = receiver.scale
    if scale is Scale.SAMPLES:
        first = node.slice[0].slice
        if not isinstance(first, cst.Index):
            assert isinstance(first, cst.Slice)
            scale = Scale.SAMPLES if first.step is None and _is_a_part(machine, first) else Scale.COUPLED
        elif keys[0].mask or keys[0].scale is Scale.RAGGED:
            scale = Scale.RAGGED
        elif keys[0].scale is Scale.SAMPLES or isinstance(first.value, cst.Ellipsis) or _names_a_part(first.value):
            scale = Scale.SAMPLES
            sources |= [PART]
        else:
            # `batch[0]` is the inputs, `tensor[0]` one sample: only a batch as it comes from its loader is unpacked so.
            is_part = len(keys) == 1 and keys[0].constant() in _PARTS and not receiver.mask
            scale = Scale.SAMPLES if is_part else Scale.UNKNOWN
            sources |= [PART]
    elif scale is Scale.TURNED:
        scale = _turned_item(node, keys)
    elif scale is Scale.RAGGED:
        scale = _ragged_item(node, keys)
    elif scale is Scale.CONST and any(key.scale is not Scale.CONST for key in keys):
        scale = scales.elementwise(*(key.scale for key in keys))
    sliced = len(node.slice) > 1 and all(isinstance(element.slice, cst.Slice) for element in node.slice[:2])
    value = Value(scale=scale, sources=sources, deep=sliced)
    at_a_place = receiver.scale is scale is Scale.SAMPLES and len(keys) == 1 and keys[0].constant() in _PARTS
    return parts.item(machine, receiver, value, node) if at_a_place else value


def _is_a_part(machine: Machine, cut: cst.Slice) -> bool:
    """`both[:len(x)]`, `both[len(x):]`: of batches that were put together, one.

    A slice by other numbers is another one of each rank's share than of the batch.
    """
    bounds = [machine.values.get(bound, NOTHING) for bound in (cut.lower, cut.upper) if bound is not None]
    return len(bounds) < 2 and all(bound.objs == SIZE for bound in bounds)


def _turned_item(node: cst.Subscript, keys: list[Value]) -> Scale:
    """Of a tensor with the samples along its second dimension: `steps[-1]` has one entry per sample."""
    first, *rest = (element.slice for element in node.slice)
    if keys[0].mask or keys[0].scale in PER_SAMPLE or (isinstance(first, cst.Index) and _unclear(first.value)):
        return Scale.UNKNOWN
    if rest and not (isinstance(rest[0], cst.Slice) and rest[0].lower is None and rest[0].upper is None):
        return Scale.COUPLED if isinstance(rest[0], cst.Slice) else Scale.UNKNOWN
    return Scale.SAMPLES if isinstance(first, cst.Index) else Scale.TURNED


def _ragged_item(node: cst.Subscript, keys: list[Value]) -> Scale:
    """Some of some samples. Which ones are at a place differs from rank to rank."""
    first = node.slice[0].slice
    if isinstance(first, cst.Slice):
        return Scale.RAGGED if first.lower is None and first.upper is None and first.step is None else Scale.COUPLED
    assert isinstance(first, cst.Index)
    chosen = keys[0].mask or keys[0].scale in PER_SAMPLE or isinstance(first.value, cst.Ellipsis) or keys[0].is_none
    return Scale.RAGGED if chosen else Scale.COUPLED


def _unclear(key: cst.BaseExpression) -> bool:
    return isinstance(key, (cst.Ellipsis, cst.Tuple, cst.List)) or _names_a_part(key)


def _names_a_part(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString))


def evaluate_slice(machine: Machine, node: cst.BaseSlice) -> Value:
    bounds = (node.lower, node.upper, node.step) if isinstance(node, cst.Slice) else ()
    values = [machine.evaluate(bound) for bound in bounds if bound is not None]
    scale = Scale.SAMPLES if any(value.scale is Scale.SAMPLES for value in values) else Scale.CONST
    return Value(scale=scale, sources=EMPTY.union(*(value.sources for value in values))) if values else NOTHING
