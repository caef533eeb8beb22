"""Recurrent and attention modules, where batches are cut by hand: which dimension they take for the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.libraries import torch_nn
from distify_codemods.objects import Arguments, External, Sequence
from distify_codemods.scale import Scale
from distify_codemods.values import Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def output_of(machine: Machine, obj: External, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """Recurrent and attention modules: along the batch they treat samples apart, along the time they do not."""
    if machine.cutting is None or not arguments.positional:
        return None
    first = arguments.positional[0]
    if first.scale not in (Scale.SAMPLES, Scale.TURNED):
        return None
    if obj.name in torch_nn.RECURRENT or obj.name in torch_nn.ATTENTION:
        options = obj.arguments
    elif obj.name in torch_nn.STACKS and obj.arguments is not None and obj.arguments.positional:
        layer = obj.arguments.positional[0].single()
        options = layer.arguments if isinstance(layer, External) else None
    else:
        return None
    given = options.get("batch_first") if options is not None else None
    batch_first = given is not None and given.constant() is True
    fits = first.scale is (Scale.SAMPLES if batch_first else Scale.TURNED)
    sources = arguments.sources
    output = Value(scale=first.scale if fits else Scale.COUPLED, sources=sources)
    if obj.name not in torch_nn.RECURRENT:
        return output
    state = Value(scale=Scale.TURNED if fits else Scale.COUPLED, sources=sources)
    if obj.name == torch_nn.LSTM:
        pair = machine.made(Sequence, node, "states", items=(state, state))
        pair.items = (state, state)
        state = Value(pair.alone, state.scale, sources)
    both = machine.made(Sequence, node, "recurrent")
    both.items = (output, state)
    return Value(both.alone, join(output, state).scale if output.scale is state.scale else Scale.UNKNOWN, sources)


def couples(machine: Machine, obj: External, scales: set[Scale]) -> bool:
    """A convolution over a dimension that the samples lie along."""
    return machine.cutting is not None and obj.name.startswith(torch_nn.CONVOLUTIONS) and scales == {Scale.TURNED}
