"""Optimizers of the script's own: classes that derive from torch's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj, Ref
from distify_codemods.events import Kind
from distify_codemods.inside import contained
from distify_codemods.libraries import torch_optim
from distify_codemods.objects import Arguments, Class, Function, Instance, Mapping, Parameters, Sequence
from distify_codemods.ordered import Ordered
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def optimizer_bases(cls: Class) -> list[str]:
    """The names of the libraries' optimizer classes that a local class derives from."""
    return [
        base.name
        for one in cls.order
        for value in one.bases
        for base in value.objs
        if isinstance(base, Ref) and torch_optim.is_optimizer(base.name)
    ]


def record_step(machine: Machine, function: Function, receiver: Obj, arguments: Arguments, node: cst.CSTNode) -> None:
    """`step()` of an optimizer class of the script's own."""
    definition = function.node
    if not isinstance(definition, cst.FunctionDef) or definition.name.value != "step":
        return
    if isinstance(receiver, Instance) and receiver.of is not None and optimizer_bases(receiver.of):
        place = node.func.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else None
        machine.event(
            Kind.METHOD, node, name="step", receiver=Value(receiver.alone), receiver_node=place,
            arguments=arguments,
        )  # fmt: skip


def groups_of(machine: Machine, optimizer: Obj, given: Arguments | None) -> Value | None:
    """`optimizer.param_groups`, of what it was given; None where it was given no parameters that are known."""
    values = given.all() if given is not None else ()
    parameters = Ordered(obj for value in values for obj in contained(value) if isinstance(obj, Parameters))
    if not parameters:
        return None
    group = machine.made(Mapping, None, optimizer, "group")
    group.items["params"] = Value(parameters)
    groups = machine.made(Sequence, None, optimizer, "groups", element=Value(group.alone))
    return Value(groups.alone)
