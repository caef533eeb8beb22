"""Functions that name the axes of tensors: torch's and numpy's einsum, and einops. Which axis is the samples'?"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.interpreter import holding, scales, whole
from distify_codemods.objects import Arguments, Sequence
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value, sources_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

S = Scale
Axes = list[list[str]]  # each dimension, with the axes that are folded into it
_DOTS = "..."
#: Along which dimension a tensor has its samples.
_PLACES = {S.SAMPLES: 0, S.RAGGED: 0, S.TURNED: 1}
_EXTREMES = ("max", "min", "prod", "any", "all")


# ---- einsum


def einsum(arguments: Arguments) -> Value:
    """`torch.einsum("bd,bd->b", x, y)`"""
    equation = arguments.positional[0].constant() if arguments.positional else None
    operands = holding.flat(arguments.positional[1:] if isinstance(equation, str) else arguments.positional)
    return _contracted(equation, operands, _letters)


def einops_einsum(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`einops.einsum(x, y, "b d, b d -> b")`"""
    equation = arguments.positional[-1].constant() if arguments.positional else None
    return _contracted(equation, arguments.positional[:-1], str.split)


def _contracted(equation: object, operands: list[Value], split: Callable[[str], list[str]]) -> Value:
    kinds = [value.scale for value in operands]
    sources = sources_of(operands)
    batches = [place for place, kind in enumerate(kinds) if kind in _PLACES]
    if not batches or not set(kinds) <= {*_PLACES, S.CONST, S.REDUCED}:
        return Value(scale=scales.elementwise(*kinds), sources=sources)
    if not isinstance(equation, str):
        return Value(scale=S.UNKNOWN, sources=sources)
    left, arrow, right = equation.partition("->")
    parts = [split(part) for part in left.split(",")]
    if len(parts) != len(operands):
        return Value(scale=S.UNKNOWN, sources=sources)
    names = {_name_at(parts[place], _PLACES[kinds[place]]) for place in batches}
    given = list(chain.from_iterable(parts))
    once = {one for one in given if given.count(one) == 1 or one == _DOTS}
    output = split(right) if arrow else sorted(once)
    if None in names:
        return Value(scale=S.UNKNOWN, sources=sources)
    if len(names) > 1:
        return Value(scale=S.COUPLED, sources=sources)
    (name,) = names
    if name not in output:
        return Value(scale=S.SUM, sources=sources)
    ragged = any(kinds[place] is S.RAGGED for place in batches)
    found = {0: S.RAGGED if ragged else S.SAMPLES, 1: S.UNKNOWN if ragged else S.TURNED}
    scale = found.get(output.index(str(name)), S.UNKNOWN)
    return Value(scale=scale, sources=sources, dims=len(output) - (_DOTS in output))


def _letters(part: str) -> list[str]:
    """The axes of one operand; `...` is one of them."""
    return re.findall(r"\.\.\.|\w", part)


def _name_at(part: list[str], place: int) -> str | None:
    if _DOTS in part[:place]:
        return None  # how many axes the dots stand for is not seen
    return part[place] if place < len(part) else None


# ---- einops


def rearrange(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`rearrange(x, "b n c -> b c n")`; also `repeat`, which adds axes."""
    pattern = arguments.get("pattern", 1)
    tensor = _stacked(arguments)
    return _patterned(machine, tensor, pattern, arguments, "", node)


def reduce(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`reduce(x, "b c h w -> b c", "mean")`"""
    how = arguments.get("reduction", 2)
    known = how.constant() if how is not None else None
    return _patterned(machine, _stacked(arguments), arguments.get("pattern", 1), arguments, known or "?", node)


def layer(machine: Machine, made_with: Arguments, arguments: Arguments, node: cst.CSTNode, reduces: bool) -> Value:
    """`einops.layers.torch.Rearrange(pattern)(x)`, and `Reduce(pattern, how)(x)`."""
    how = made_with.get("reduction", 1) if reduces else None
    known = (how.constant() or "?") if how is not None else ""
    pattern = made_with.get("pattern", 0)
    return _patterned(machine, arguments.get("x", 0) or NOTHING, pattern, made_with, known, node)


def _stacked(arguments: Arguments) -> Value:
    """What is rearranged; of a list of tensors, that they are stacked along a new first axis."""
    given = arguments.get("tensor", 0) or NOTHING
    if not any(isinstance(obj, Sequence) for obj in given.objs):
        return given
    item = holding.any_item(given)
    scale = {S.SAMPLES: S.TURNED, S.TURNED: S.UNKNOWN, S.RAGGED: S.UNKNOWN}.get(item.scale, item.scale)
    return Value(scale=scale, sources=item.sources | given.sources)


def _patterned(
    machine: Machine, tensor: Value, pattern: Value | None, sizes: Arguments, how: object, node: cst.CSTNode
) -> Value:
    text = pattern.constant() if pattern is not None else None
    sources = tensor.sources.union(*(value.sources for value in sizes.keywords.values()))
    left, arrow, right = text.partition("->") if isinstance(text, str) else ("", "", "")
    before, after = _axes(left), _axes(right)
    if tensor.scale is S.CONST:
        counted = [name for name, value in sizes.keywords.items() if value.scale is S.COUNT]
        scale = _found(after, counted[0]) if len(counted) == 1 and not _has(before, counted[0]) else S.CONST
        return Value(scale=scale, sources=sources)
    if tensor.scale not in _PLACES:
        return Value(scale=tensor.scale, sources=sources)
    place = _PLACES[tensor.scale]
    flat = [one[0] if one else "1" for one in before]
    name = _name_at(flat, place) if arrow else None
    if name is None:
        return Value(scale=S.UNKNOWN, sources=sources)
    if not _has(after, name):
        return Value(scale=_without(tensor.scale, how), sources=sources)
    scale = _found(after, name)
    if tensor.scale is S.RAGGED:
        scale = S.RAGGED if scale is S.SAMPLES else S.UNKNOWN
    value = Value(scale=scale, sources=sources, dims=len(after) - ([_DOTS] in after))
    alone = before[place] == [name] and [name] in after
    return value if alone else whole.regrouped(machine, "view", tensor, Arguments(), value, node)


def _axes(side: str) -> Axes:
    """`"b (h w) c"`: [[b], [h, w], [c]]"""
    found = re.findall(r"\(([^)]*)\)|(\S+)", side)
    return [one.split() if not name else [name] for one, name in found]


def _has(axes: Axes, name: str) -> bool:
    return any(name in one for one in axes)


def _found(axes: Axes, name: str) -> Scale:
    place = next(number for number, one in enumerate(axes) if name in one) if _has(axes, name) else -1
    if [_DOTS] in axes[: max(place, 0)]:
        return S.UNKNOWN
    return {0: S.SAMPLES, 1: S.TURNED}.get(place, S.UNKNOWN)


def _without(scale: Scale, how: object) -> Scale:
    """A reduction over the samples."""
    if how == "mean":
        return scales.average(scale)
    if how == "sum":
        return scales.total(scale)
    return S.COUPLED if how in _EXTREMES else S.UNKNOWN


def pack(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`pack([x, y], "b *")`: joined along the axis of the star, and the shapes that `unpack` takes."""
    pattern = arguments.get("pattern", 1)
    text = pattern.constant() if pattern is not None else None
    item = holding.any_item(arguments.get("tensors", 0) or NOTHING)
    listed = (arguments.get("tensors", 0) or NOTHING).single()
    alone = isinstance(listed, Sequence) and listed.items is not None and len(listed.items) == 1
    star = text.split().index("*") if isinstance(text, str) and "*" in text.split() else None
    kept = item.scale not in _PLACES or (star is not None and star > _PLACES[item.scale]) or (alone and star == 0)
    packed = Value(scale=item.scale if kept else S.UNKNOWN, sources=item.sources)
    if star == 0:
        packed = whole.regrouped(machine, "view", item, Arguments(), packed, node)
    both = machine.made(Sequence, node, "packed", items=(packed, NOTHING))
    both.items = (packed, NOTHING)
    return Value(both.alone)


def unpack(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """The parts of what was packed, each laid out as it was before."""
    tensor = arguments.get("tensor", 0) or NOTHING
    part = Value(scale=tensor.scale, sources=tensor.sources)
    return Value(machine.made(Sequence, node, "unpacked", element=part).alone)


FUNCTIONS = {
    "einops.rearrange": rearrange,
    "einops.repeat": rearrange,
    "einops.reduce": reduce,
    "einops.einsum": einops_einsum,
    "einops.pack": pack,
    "einops.unpack": unpack,
}
LAYERS = {"einops.layers.torch.Rearrange": False, "einops.layers.torch.Reduce": True}
