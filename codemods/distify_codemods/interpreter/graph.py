"""The graph that a backward pass walks, as far as a run of its own follows it: through which calls of which modules.

A value's `sources` then have a `Through` for each call of a module that gradients of the value would flow back through.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.inside import contained
from distify_codemods.interpreter import cuts
from distify_codemods.objects import Arguments, External, Instance, Parameters, Sequence
from distify_codemods.ordered import Ordered
from distify_codemods.origins import Through
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: Methods and attributes of tensors that gradients do not flow through.
_ENDS = frozenset(["detach", "item", "tolist", "numpy", "data", "argmax"])


def through(machine: Machine, module: Obj, arguments: Arguments, result: Value, node: cst.CSTNode) -> Value:
    """What a call of a module returned. What a library's module makes of its arguments depends on all of them."""
    if not isinstance(module, (External, Instance)):
        return result
    marks = [machine.made(Through, node, module, of=module)]
    if isinstance(module, External):
        marks += [mark for value in arguments.all() for mark in marks_of(value)]
    return cuts.marked(machine, result, node, Ordered(marks))


def flowing(machine: Machine, value: Value, node: cst.BaseExpression) -> Value:
    """An expression's value without what its gradients do not flow to."""
    function = node.func if isinstance(node, cst.Call) else node
    if machine.grad and not (isinstance(function, cst.Attribute) and function.attr.value in _ENDS):
        return _of_parameters(machine, value, node)
    if not any(isinstance(source, Through) for source in value.sources):
        return value
    return value.with_sources(Ordered(one for one in value.sources if not isinstance(one, Through)))


def _of_parameters(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    """`for p in net.parameters(): penalty += p.norm()`: gradients flow to them without a call of the module."""
    read = [obj for obj in value.objs if isinstance(obj, Parameters) and obj.of is not None]
    if not read:
        return value
    marks = (machine.made(Through, node, obj, of=obj.of, straight=True) for obj in read)
    return value.adding(Ordered(marks))


def stored(tensor: Value, value: Value) -> Value:
    """`outputs[t] = output`: gradients of a tensor flow to what was put into it."""
    return replace(tensor, sources=tensor.sources | marks_of(value))


def modules_behind(value: Value) -> set[Obj]:
    """The modules through whose calls gradients of a value, or of anything that it holds, flow back."""
    return {mark.of for mark in marks_of(value) if mark.of is not None and not mark.straight}


def read_straight(value: Value) -> set[Obj]:
    """The modules whose parameters it is made of, without a call of them."""
    return {mark.of for mark in marks_of(value) if mark.of is not None and mark.straight}


def marks_of(value: Value) -> Ordered[Through]:
    """Of a value and of all that it holds."""
    inside = [
        item for obj in contained(value) if isinstance(obj, Sequence)
        for item in (*(obj.items or ()), *([obj.element] if obj.element is not None else []))
    ]  # fmt: skip
    return Ordered(source for one in (value, *inside) for source in one.sources if isinstance(source, Through))
