"""How many dimensions a tensor has at least, as what is asked of it says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.origins import Shape
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def unpacked(machine: Machine, shape: Value, count: int) -> None:
    """`batch, time, width = x.shape`: so many dimensions `x` has."""
    for obj in shape.objs:
        site = obj.site.func if isinstance(obj, Shape) and isinstance(obj.site, cst.Call) else obj.site
        if isinstance(obj, Shape) and isinstance(site, cst.Attribute) and site.attr.value in ("shape", "size"):
            _have(machine, site.value, count)


def asked(machine: Machine, shape: Value, place: object) -> None:
    """`x.shape[2]`, `x.shape[-3]`"""
    if isinstance(place, int):
        unpacked(machine, shape, _reached_by(place))


def asked_by_call(machine: Machine, node: cst.CSTNode, place: object) -> None:
    """`x.size(2)`"""
    if isinstance(place, int) and isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        _have(machine, node.func.value, _reached_by(place))


def _reached_by(place: int) -> int:
    return place + 1 if place >= 0 else -place


def _have(machine: Machine, tensor: cst.BaseExpression, count: int) -> None:
    known = machine.frame.env.get(tensor.value) if isinstance(tensor, cst.Name) else None
    if isinstance(tensor, cst.Name) and known is not None and known.dims < count:
        machine.frame.env[tensor.value] = replace(known, dims=count)
