"""Libraries that run a function which they are given, with arguments that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.libraries import python
from distify_codemods.objects import Arguments, Function, Instance, Mapping, Sequence
from distify_codemods.ordered import Ordered
from distify_codemods.values import NOTHING, Value, join

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
    table = target.single()
    choices = list(table.items.values()) if isinstance(table, Mapping) else [target]
    results = [machine.call(one, Arguments(items), node) for one in choices if one.objs]
    result = join(*results)
    for obj in result.objs:
        if isinstance(obj, Instance) and obj.of in target.objs:
            for function in _public(obj):
                machine.invoke(function, Arguments(), node, obj)


def _without_being_told(machine: Machine, name: str) -> Value:
    if name.endswith("app.run"):
        return machine.module_frame(machine.frame.module).env.get("main", NOTHING)
    return _commands(machine) if name == "fire.Fire" else NOTHING


def _commands(machine: Machine) -> Value:
    """Any function of the file may be the command of `fire.Fire()`."""
    module = machine.frame.module
    table = machine.made(Mapping, None, module, "commands")
    for name, value in machine.module_frame(module).env.items():
        if any(isinstance(obj, Function) and obj.module is module for obj in value.objs):
            table.items[name] = value
    return Value(table.alone)


def _public(obj: Instance) -> list[Function]:
    found = [one for value in (obj.of.attributes.values() if obj.of else ()) for one in value.objs]
    named = [one for one in found if isinstance(one, Function) and isinstance(one.node, cst.FunctionDef)]
    return [one for one in named if isinstance(one.node, cst.FunctionDef) and not one.node.name.value.startswith("_")]
