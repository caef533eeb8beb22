"""Functions of the script's own that tell autograd how they are computed, and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.interpreter import holding, other_names
from distify_codemods.objects import Arguments, Class, Function, Instance, Method, Sequence
from distify_codemods.ordered import Ordered
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def applied(machine: Machine, own: Class, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`Function.apply(x)`: what its `forward` makes of it; coupled, if its `backward` relates gradients of samples.

    What that writes, it writes once for each call, too: it is followed here, whenever it comes.
    """
    kept = machine.made(Instance, node, own, "context", of=own)
    context = [] if own.member("setup_context") is not None else [Value(kept.alone)]
    given = Arguments([*context, *arguments.positional], arguments.keywords, arguments.star, arguments.double_star)
    grad, machine.grad = machine.grad, False
    result = machine.call(_method(own, "forward"), given, node)
    machine.grad = grad
    if result.scale not in PER_SAMPLE:
        return result
    gradient = Value(scale=result.scale, sources=result.sources, dims=result.dims)
    returned = machine.call(_method(own, "backward"), Arguments([_left(machine, kept, node), gradient]), node)
    related = any(one.scale is Scale.COUPLED for one in (returned, *holding.flat([returned])))
    return Value(scale=Scale.COUPLED, sources=result.sources) if related else result


def _left(machine: Machine, kept: Instance, node: cst.CSTNode) -> Value:
    """What `backward` finds of it: factors of gradients, of which only what they depend on is told."""
    left = machine.made(Instance, node, kept, "left", of=kept.of)
    for name, value in kept.attributes.items():
        machine.keep(left.attributes, name, _as_factor(machine, value, node), left)
    other_names.hand_on(machine, kept, left)
    return Value(left.alone)


def _as_factor(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    objs = holding.mapped(machine, value, node, "left", lambda one: _as_factor(machine, one, node))
    return Value(objs, sources=value.sources, dims=value.dims)


def saved(machine: Machine, context: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """`ctx.save_for_backward(x, y)`"""
    if not isinstance(context, Instance) or arguments.star is not None:
        return None
    listed = machine.made(Sequence, node, context, "saved")
    old = listed.items if listed.items is not None and len(listed.items) == len(arguments.positional) else None
    listed.items = tuple(map(join, old, arguments.positional)) if old else tuple(arguments.positional)
    machine.keep(context.attributes, "saved_tensors", Value(listed.alone), context)
    other_names.save(machine, context, node)
    return NOTHING


def _method(own: Class, name: str) -> Value:
    found = own.member(name) or NOTHING
    return Value(Ordered(one for one in found.objs if isinstance(one, Function)))
