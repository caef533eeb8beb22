"""How many dimensions a tensor has at least, as what is asked of it says.

Only where it is asked whatever happens, of the name itself: `x.shape[2] if x.dim() > 2 else 1` does not tell it, and
`shape[2]` may be of what `x` was before.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.origins import Shape
from distify_codemods.values import NOTHING

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: In these, what is asked may not be asked at all.
_CONDITIONAL = (cst.IfExp, cst.BooleanOperation, cst.BaseComp, cst.Lambda, cst.Assert)
_STATEMENTS = (cst.BaseSmallStatement, cst.BaseCompoundStatement)


def unpacked(machine: Machine, target: cst.Tuple | cst.List) -> None:
    """`batch, time, width = x.shape`: so many dimensions `x` has."""
    parents = machine.frame.module.parents
    holder = parents.get(parents.get(target, target))
    if isinstance(holder, cst.Assign):
        _tell(machine, holder.value, sum(isinstance(one, cst.Element) for one in target.elements))


def asked(machine: Machine, node: cst.Subscript, place: object) -> None:
    """`x.shape[2]`, `x.shape[-3]`"""
    if isinstance(place, int) and _is_asked_always(machine, node):
        _tell(machine, node.value, _reached_by(place))


def asked_by_call(machine: Machine, node: cst.CSTNode, place: object) -> None:
    """`x.size(2)`"""
    function = node.func if isinstance(node, cst.Call) else None
    if isinstance(place, int) and isinstance(function, cst.Attribute) and _is_asked_always(machine, node):
        _have(machine, function.value, _reached_by(place))


def _reached_by(place: int) -> int:
    return place + 1 if place >= 0 else -place


def _is_asked_always(machine: Machine, node: cst.CSTNode) -> bool:
    around = machine.frame.module.enclosing(node)
    inside = takewhile(lambda one: isinstance(one, cst.Assert) or not isinstance(one, _STATEMENTS), around)
    return not any(isinstance(one, _CONDITIONAL) for one in inside)


def _tell(machine: Machine, shape: cst.BaseExpression, count: int) -> None:
    asked_of = shape.func if isinstance(shape, cst.Call) else shape
    is_shape = any(isinstance(obj, Shape) for obj in machine.values.get(shape, NOTHING).objs)
    if is_shape and isinstance(asked_of, cst.Attribute) and asked_of.attr.value in ("shape", "size"):
        _have(machine, asked_of.value, count)


def _have(machine: Machine, tensor: cst.BaseExpression, count: int) -> None:
    known = machine.frame.env.get(tensor.value) if isinstance(tensor, cst.Name) else None
    if isinstance(tensor, cst.Name) and known is not None and known.dims < count:
        machine.frame.env[tensor.value] = replace(known, dims=count)
