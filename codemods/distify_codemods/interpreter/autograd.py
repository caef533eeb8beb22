"""Functions of the script's own that tell autograd how they are computed, and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.interpreter import holding
from distify_codemods.objects import Arguments, Class, Function
from distify_codemods.ordered import Ordered
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def applied(machine: Machine, own: Class, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`Function.apply(x)`: what its `forward` makes of it; coupled, if its `backward` relates gradients of samples."""
    context = [] if own.member("setup_context") is not None else [NOTHING]
    given = Arguments([*context, *arguments.positional], arguments.keywords, arguments.star, arguments.double_star)
    grad, machine.grad = machine.grad, False
    result = machine.call(_method(own, "forward"), given, node)
    machine.grad = grad
    if result.scale not in PER_SAMPLE:
        return result
    gradient = Value(scale=result.scale, sources=result.sources, dims=result.dims)
    returned = machine.call(_method(own, "backward"), Arguments([NOTHING, gradient]), node)
    related = any(one.scale is Scale.COUPLED for one in (returned, *holding.flat([returned])))
    return Value(scale=Scale.COUPLED, sources=result.sources) if related else result


def _method(own: Class, name: str) -> Value:
    found = own.member(name) or NOTHING
    return Value(Ordered(one for one in found.objs if isinstance(one, Function)))
