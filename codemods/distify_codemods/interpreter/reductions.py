"""Where a number stops being a mean or a sum over samples, and what becomes of it once it is taken over all ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.events import Kind
from distify_codemods.interpreter import whole
from distify_codemods.libraries import torch_data, truths
from distify_codemods.ordered import Ordered
from distify_codemods.origins import Lost, Whole
from distify_codemods.scale import LOST, Scale
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: What an expression may say of its batch, so that there is one for the batches of all ranks.
REDUCIBLE = frozenset({Scale.SUM, Scale.COUNT, Scale.MEAN, Scale.WEIGHTED})


#: What gives the number that a tensor holds, or asks something of it, through which no gradient flows.
_READING_OUT = frozenset(["detach", "item", "tolist", "numpy", "data", *truths.NO_NUMBERS, truths.FINITE])
_CASTS = frozenset(["float", "int"])


def followed(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    reducing = machine.reducing
    assert reducing is not None
    if node in reducing.nodes and not isinstance(node, cst.AugAssign):
        value = reduced(machine, value, node)
    if value.scale is Scale.REDUCED and _reads_out(node):
        value = read_out(machine, value, node)
    return marked(machine, value, node)


def read_out(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    """A figure of all ranks, without its gradient, is no longer of the samples of one."""
    if value.scale is not Scale.REDUCED:
        return value
    return replace(whole.of_all_ranks(machine, value, node, torch_data.LOADERS), scale=Scale.REDUCED)


def _reads_out(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Comparison):
        return True
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        return node.func.value in _CASTS
    function = node.func if isinstance(node, cst.Call) else node
    return isinstance(function, cst.Attribute) and function.attr.value in _READING_OUT


def reduced(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    """Where no gradients are recorded, the runtime leaves a value as it is."""
    machine.event(Kind.REDUCED, node, name=f"{value.scale.name} {machine.grad}", value=value)
    if not machine.grad or value.scale not in REDUCIBLE:
        return value
    if any(isinstance(source, Whole) for source in value.sources):
        return replace(value, scale=Scale.COUPLED)  # all ranks have all of it: it would count once for each
    return Value(value.objs, Scale.REDUCED, value.sources, open=value.open)


def marked(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    if machine.reducing is None or not machine.reducing.traced or value.scale not in LOST:
        return value
    marks = {source.scale for source in value.sources if isinstance(source, Lost)}
    fresh = value.scale is Scale.WEIGHTED and Scale.WEIGHTED not in marks  # a mean of what could not be followed
    if marks and not fresh:
        return value
    return value.adding([machine.mark(Lost, node, value.scale, scale=value.scale)])


def unmarked(value: Value) -> Value:
    kept = Ordered(source for source in value.sources if not isinstance(source, Lost))
    return value if len(kept) == len(value.sources) else value.with_sources(kept)
