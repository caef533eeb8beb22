"""Recurrent and attention modules, and packed sequences: which dimension they take for the batch.

Along the batch they treat samples apart, along the time they do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.interpreter import parts
from distify_codemods.libraries import torch_nn
from distify_codemods.objects import Arguments, External, Sequence
from distify_codemods.ordered import EMPTY
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def output_of(machine: Machine, obj: External, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """What such a module returns; None for others, and where it is not seen how the batch lies."""
    options = _options(obj)
    first = next(iter(arguments.all()), NOTHING)
    if options is None or first.scale not in (Scale.SAMPLES, Scale.TURNED):
        return None
    sources, packed = arguments.sources, _is_packed(first)
    fits = packed or first.scale is _along(options.get("batch_first"))
    scale = first.scale if fits else Scale.COUPLED
    output = Value(first.objs if packed else EMPTY, scale, sources, dims=0 if packed else 3)
    if obj.name in torch_nn.RECURRENT:
        state = Value(scale=Scale.TURNED if fits else Scale.COUPLED, sources=sources)
        if obj.name == torch_nn.LSTM:
            state = _pair(machine, node, "states", state, state)
        return _pair(machine, node, "recurrent", output, state)
    if obj.name == torch_nn.MULTIHEAD:
        weights = Value(scale=Scale.SAMPLES if fits else Scale.COUPLED, sources=sources)
        return _pair(machine, node, "attended", output, weights)
    return output


def _options(obj: External) -> Arguments | None:
    """What the module, or the layer of which it has several, was made with."""
    if obj.name in torch_nn.RECURRENT or obj.name in torch_nn.ATTENTION:
        return obj.arguments or Arguments()
    if obj.name in torch_nn.STACKS and obj.arguments is not None:
        layer = next(iter(obj.arguments.all()), NOTHING).single()
        return (layer.arguments or Arguments()) if isinstance(layer, External) else None
    return None


def _pair(machine: Machine, node: cst.CSTNode, key: str, one: Value, other: Value) -> Value:
    items = tuple(parts.computed(part) if machine.evidence and not part.objs else part for part in (one, other))
    both = machine.made(Sequence, node, key, items=items)
    both.items = items
    scale = one.scale if one.scale is other.scale else Scale.UNKNOWN
    return Value(both.alone, scale, one.sources | other.sources)


def pack(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`pack_padded_sequence(x, lengths)`: what is given that takes each sample by itself, whichever way it lay."""
    tensor, batch_first = arguments.get("input", 0) or NOTHING, arguments.get("batch_first", 2)
    scale = tensor.scale
    if scale in (Scale.SAMPLES, Scale.TURNED):
        scale = Scale.SAMPLES if scale is _along(batch_first) else Scale.COUPLED
    return Value(machine.made(External, node, name=torch_nn.PACKED).alone, scale, arguments.sources)


def unpack(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`pad_packed_sequence(packed)`: what was packed, and the lengths."""
    packed = arguments.get("sequence", 0) or NOTHING
    scale = _along(arguments.get("batch_first", 1)) if packed.scale is Scale.SAMPLES else packed.scale
    padded, lengths = Value(scale=scale, sources=arguments.sources), Value(EMPTY, packed.scale, arguments.sources)
    return _pair(machine, node, "unpacked", padded, lengths)


def _along(batch_first: Value | None) -> Scale:
    return Scale.SAMPLES if batch_first is not None and batch_first.constant() is True else Scale.TURNED


def _is_packed(value: Value) -> bool:
    return any(isinstance(obj, External) and obj.name == torch_nn.PACKED for obj in value.objs)
