"""Libraries that run a function which they are given, with arguments that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.libraries import python
from distify_codemods.objects import Arguments, Sequence
from distify_codemods.ordered import Ordered
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def run(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> None:
    parameter, place, args = python.RUNNERS[name]
    target = arguments.get(parameter, place) or _without_being_told(machine, name)
    spawns = name.endswith(".spawn")
    given = arguments.get(args, 1) if spawns else arguments.keywords.get(args)
    only = given.single() if given is not None else None
    items = list(only.items) if isinstance(only, Sequence) and only.items is not None else []
    if spawns:
        items.insert(0, Value(sources=Ordered(["rank"])))
    if target.objs:
        machine.call(target, Arguments(items), node)


def _without_being_told(machine: Machine, name: str) -> Value:
    if name.endswith("app.run"):
        return machine.module_frame(machine.frame.module).env.get("main", NOTHING)
    return NOTHING
