"""`thing[key]`: items of containers, parts of tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj, Ref
from distify_codemods.events import Kind
from distify_codemods.inside import core
from distify_codemods.interpreter import (
    cuts,
    dimensions,
    foreign,
    forms,
    holding,
    imports,
    modules,
    pairing,
    parts,
    ranks,
    rearranged,
    rows,
    scales,
    single_rows,
    ways,
)
from distify_codemods.libraries import computing, python
from distify_codemods.objects import Arguments, External, Instance, Mapping, Method, Sequence, Wrapped
from distify_codemods.origins import PART, PIECE, Counter, Cropped, Places, Shape
from distify_codemods.scale import FIGURES, PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, SIZE, Value, join, sources_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


_NAMES = ".__dict__"


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
        found = [value.adding(pairing.places(receiver)) for value in found]
        value = _by_keys(receiver, ways.chosen(join(*found), join(*keys)), keys)
        value = pairing.followed(machine, receiver, node, keys, value) if pairing.is_a_table(receiver) else value
        return value if only_index else forms.part(machine, node, keys, value)
    item = tensor_item(machine, receiver, node, keys)
    return forms.part(machine, node, keys, pairing.followed(machine, receiver, node, keys, item))


def _by_keys(receiver: Value, value: Value, keys: list[Value]) -> Value:
    """`file["rows"][drawn]`: what something of a library has for a batch's own keys, the batch has."""
    ours = all(key.scale is Scale.CONST for key in keys) or value.scale is not Scale.CONST
    if ours or not any(isinstance(core(obj), External) for obj in receiver.objs):
        return value
    scale = scales.elementwise(*(key.scale for key in keys))
    return replace(value, scale=scale, sources=value.sources | sources_of(keys))


def _is_environment(obj: Obj) -> bool:
    return isinstance(obj, Ref) and obj.name == python.ENVIRONMENT


def _item_of(
    machine: Machine, obj: Obj, known: object, only_index: bool, receiver: Value, node: cst.Subscript
) -> Value:
    if isinstance(obj, Sequence):
        if isinstance(known, int) and obj.items is not None and -len(obj.items) <= known < len(obj.items):
            return obj.items[known]
        own = receiver.of(obj.alone)
        item = holding.any_item(own)
        if not only_index:
            own = own.adding([PIECE]) if PIECE in item.sources else own
            return rearranged.cut(machine, own, node)
        return single_rows.of_list(machine, node, obj, item)
    if isinstance(obj, Instance):
        return _item_of_instance(machine, obj, known, only_index, receiver, node)
    if isinstance(obj, Mapping):
        return _entry(machine, obj, known, node)
    if isinstance(obj, External) and isinstance(known, str) and known in obj.attributes:
        return obj.attributes[known]
    if _is_environment(obj):
        return Value(sources=ranks.of_variable(known))
    if isinstance(obj, Ref) and obj.name == python.MODULES:
        return imports.by_its_name(machine, known)
    if isinstance(obj, Ref) and obj.name.endswith(_NAMES):  # `models.__dict__[name]`
        return imports.reference(machine, f"{obj.name.removesuffix(_NAMES)}.{known if isinstance(known, str) else '?'}")
    if isinstance(obj, Shape):
        if not only_index and _begins_at_the_front(node):
            return receiver.of(obj.alone)  # `batch, time = x.shape[:2]`
        dimensions.asked(machine, node, known if only_index else None)
        return holding.part_of_shape(obj, receiver, known if only_index else None)
    inner = core(obj)
    inside = modules.held_by(inner, known) if only_index else None
    if inside is None and isinstance(inner, External) and not receiver.sources:
        inside = Value(machine.made(External, node, inner, name=f"{inner.name}[]", whole=inner).alone)
    if isinstance(inner, Method) and not receiver.sources:
        inside = _block_of(machine, inner, node)
    return foreign.with_kept(inner, inside or NOTHING)


def _begins_at_the_front(node: cst.Subscript) -> bool:
    part = node.slice[0].slice if len(node.slice) == 1 else None
    return isinstance(part, cst.Slice) and part.lower is None and part.step is None


def _block_of(machine: Machine, part: Method, node: cst.Subscript) -> Value | None:
    """`vgg16().features[:16]`, `resnet18().layer1[0]`: some of the layers that a model of a library has by name."""
    model = core(part.receiver.single() or part) if part.receiver is not None else part
    if not isinstance(model, External) or not computing.is_a_part(model.name, part.name):
        return None
    return Value(machine.made(External, node, part, name=f"{model.name}.{part.name}[]", whole=model).alone)


def _entry(machine: Machine, table: Mapping, known: object, node: cst.Subscript) -> Value:
    """`table[known]`; None: of some key. What is not there may be made."""
    if table.factory is not None and (known not in table.items if known else not table.rest):
        holding.set_item(machine, table, known, machine.call(table.factory, Arguments(), node))
    if table.factory is not None and isinstance(index := node.slice[0].slice, cst.Index):
        holding.set_key(machine, table, machine.values.get(index.value, NOTHING))
    return table.items[known] if known in table.items else table.any() if known is None else table.rest or NOTHING


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
    if table is not None:
        return _item_of(machine, table, known, only_index, receiver, node)
    return (modules.held_by(obj, known) if only_index else None) or NOTHING


_PARTS = range(8)  # of a batch; a negative index is more often that of a sample


def tensor_item(machine: Machine, receiver: Value, node: cst.Subscript, keys: list[Value]) -> Value:
    if (told := parts.of_labels(receiver, keys[0].constant())) is not None:
        return told
    sources = receiver.sources.union(*(key.sources for key in keys))
    scale = receiver.scale
    if scale is Scale.SAMPLES:
        scale = _sample_item(machine, receiver, node, keys)
        sources |= [PART] if isinstance(node.slice[0].slice, cst.Index) and scale is not Scale.RAGGED else []
    elif scale is Scale.TURNED:
        scale = _turned_item(receiver, node, keys)
    elif scale is Scale.RAGGED:
        scale = _ragged_item(node, keys)
    elif scale is Scale.CONST and any(key.scale is not Scale.CONST for key in keys):
        scale = scales.elementwise(*(key.scale for key in keys))
    elif scale in FIGURES and any(key.scale in FIGURES for key in keys):
        scale = Scale.UNKNOWN  # `means[means > 0]`: each rank's own take others
    one_row = rows.item(receiver, node, keys)
    value = Value(scale=scale, sources=sources, dims=_dims(receiver, node, keys), one_row=one_row)
    if machine.evidence and scale in PER_SAMPLE and any(_is_by_a_figure(machine, one.slice) for one in node.slice):
        value = value.adding([machine.mark(Cropped, node)])
    at_a_place = receiver.scale is scale is Scale.SAMPLES and len(keys) == 1 and keys[0].constant() in _PARTS
    value = parts.item(machine, receiver, value, node) if at_a_place else value
    return single_rows.taken(machine, node, receiver, keys[0], value)


def _is_by_a_figure(machine: Machine, part: cst.BaseSlice) -> bool:
    """`x[:, :sizes.min()]`: of which each rank's samples have another."""
    bounds = (part.lower, part.upper) if isinstance(part, cst.Slice) else ()
    return any(machine.values.get(one, NOTHING).scale in FIGURES for one in bounds if one is not None)


def _dims(receiver: Value, node: cst.Subscript, keys: list[Value]) -> int:
    """How many dimensions are left at least: a number takes one away, `None` adds one; of a tensor it is not seen."""
    cuts = [one.slice for one in node.slice if isinstance(one.slice, cst.Slice)]
    plain = all(key.scale is Scale.CONST and not key.mask for key in keys)
    added = sum(key.is_none for key in keys)
    taken = len(node.slice) - len(cuts) - added
    return max(receiver.dims - taken + added if plain else 0, len(cuts) + added)


def _sample_item(machine: Machine, receiver: Value, node: cst.Subscript, keys: list[Value]) -> Scale:
    """Of a batch: some of its samples, or a part of it."""
    first = node.slice[0].slice
    if isinstance(first, cst.Slice):
        return Scale.SAMPLES if first.step is None and _is_a_part(machine, first) else Scale.COUPLED
    assert isinstance(first, cst.Index)
    if keys[0].mask or keys[0].scale is Scale.RAGGED:
        return Scale.RAGGED
    if keys[0].scale is Scale.SAMPLES and len(keys) == 1 and not any(isinstance(one, Places) for one in keys[0].objs):
        return Scale.COUPLED  # a mask that is not seen to be one takes some of the samples, numbers take others
    if keys[0].scale is Scale.SAMPLES or isinstance(first.value, cst.Ellipsis) or _names_a_part(first.value):
        return Scale.SAMPLES
    if keys[0].scale is Scale.COUNT and any(_numbers_samples(obj) for obj in keys[0].objs):
        return Scale.SAMPLES
    # `batch[0]` is the inputs, `tensor[0]` one sample: only a batch as it comes from its loader is unpacked so.
    is_part = len(keys) == 1 and keys[0].constant() in _PARTS and not receiver.mask
    return Scale.SAMPLES if is_part else Scale.UNKNOWN


def _numbers_samples(obj: Obj) -> bool:
    """`[x[i] for i in range(len(x))]`; in the turns of a loop, what each has done to others is not seen."""
    return isinstance(obj, Counter) and obj.loop is None


def _is_a_part(machine: Machine, cut: cst.Slice) -> bool:
    """`both[:len(x)]`, `both[len(x):]`: of batches that were put together, one.

    A slice by other numbers is another one of each rank's share than of the batch.
    """
    bounds = [machine.values.get(bound, NOTHING) for bound in (cut.lower, cut.upper) if bound is not None]
    return len(bounds) < 2 and all(bound.objs == SIZE for bound in bounds)


def _turned_item(receiver: Value, node: cst.Subscript, keys: list[Value]) -> Scale:
    """Of a tensor with the samples along its second dimension: `steps[-1]` has one entry per sample."""
    first, *rest = (element.slice for element in node.slice)
    if isinstance(first, cst.Index) and isinstance(first.value, cst.Ellipsis) and receiver.dims - len(rest) > 1:
        others = all(key.scale is Scale.CONST and not key.mask and not key.is_none for key in keys[1:])
        return Scale.TURNED if others else Scale.UNKNOWN  # `steps[..., 0]`, of at least three dimensions
    if keys[0].mask or keys[0].scale in PER_SAMPLE or (isinstance(first, cst.Index) and _unclear(first.value)):
        return Scale.UNKNOWN
    if rest and not _is_all(rest[0]):
        return Scale.COUPLED if isinstance(rest[0], cst.Slice) else Scale.UNKNOWN
    return Scale.SAMPLES if isinstance(first, cst.Index) else Scale.TURNED


def _ragged_item(node: cst.Subscript, keys: list[Value]) -> Scale:
    """Some of some samples. Which ones are at a place differs from rank to rank."""
    first = node.slice[0].slice
    if isinstance(first, cst.Slice):
        return Scale.RAGGED if _is_all(first) else Scale.COUPLED
    assert isinstance(first, cst.Index)
    chosen = keys[0].mask or keys[0].scale in PER_SAMPLE or isinstance(first.value, cst.Ellipsis) or keys[0].is_none
    return Scale.RAGGED if chosen else Scale.COUPLED


def _is_all(cut: cst.BaseSlice) -> bool:
    """`:`"""
    return isinstance(cut, cst.Slice) and cut.lower is None and cut.upper is None and cut.step is None


def _unclear(key: cst.BaseExpression) -> bool:
    """Also `steps[None]`: what was along the second dimension is along the third."""
    is_none = isinstance(key, cst.Name) and key.value == "None"
    return is_none or isinstance(key, (cst.Ellipsis, cst.Tuple, cst.List)) or _names_a_part(key)


def _names_a_part(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString))


def evaluate_slice(machine: Machine, node: cst.BaseSlice) -> Value:
    bounds = (node.lower, node.upper, node.step) if isinstance(node, cst.Slice) else ()
    values = [machine.evaluate(bound) for bound in bounds if bound is not None]
    scale = Scale.SAMPLES if any(value.scale is Scale.SAMPLES for value in values) else Scale.CONST
    return Value(scale=scale, sources=sources_of(values)) if values else NOTHING
