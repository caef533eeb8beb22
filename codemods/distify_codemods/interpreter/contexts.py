"""`with`: context managers of local classes and of generators, and what libraries' give."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.interpreter import functions
from distify_codemods.libraries import torch_optim
from distify_codemods.objects import Arguments, External, Instance, Suspended
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def run(machine: Machine, node: cst.With, number: int = 0) -> bool:
    """Enters the items from this one on, and runs the body; false when control never reaches its end."""
    if number == len(node.items):
        return machine.arm(node, "body", node.body)
    item = node.items[number]
    value = machine.evaluate(item.item)
    only = value.single()
    falls = True

    def rest(entered: Value) -> None:
        nonlocal falls
        if item.asname is not None:
            machine.assign(item.asname.name, entered)
        falls = run(machine, node, number + 1)

    if isinstance(only, Suspended):
        resumed(machine, only, rest)
        return falls
    machine.grad = functions.gradient_mode(value, machine.grad)
    rest(_entered(machine, value, node))
    for obj in value.objs:
        if isinstance(obj, Instance):
            machine.call(machine.attribute(obj, "__exit__"), Arguments(), node)
    return falls


def resumed(machine: Machine, generator: Suspended, rest: Callable[[Value], None]) -> None:
    """Runs a generator's code with what is under `with` at the place of its `yield`."""
    frame, here = machine.frame, machine.here
    entered = False

    def at_yield(value: Value) -> None:
        nonlocal entered
        entered = True
        inner = machine.frame, machine.here
        machine.frame, machine.here = frame, here
        rest(value)
        machine.frame, machine.here = inner

    assert generator.function is not None
    assert generator.arguments is not None
    site = generator.site or frame.node
    functions.run_suspended(machine, generator.function, generator.arguments, site, generator.receiver, at_yield)
    if not entered:
        rest(NOTHING)


def _entered(machine: Machine, value: Value, node: cst.With) -> Value:
    """What `as` gets."""
    found = []
    for obj in value.objs:
        own = value.of(obj.alone)
        if isinstance(obj, Instance):
            method = machine.attribute(obj, "__enter__")
            found.append(machine.call(method, Arguments(), node) if method.objs else own)
        elif isinstance(obj, External) and obj.name == torch_optim.SCALES_LOSS and obj.arguments is not None:
            found.append(obj.arguments.get("loss", 0) or own)
        else:
            found.append(own)
    return join(*found) if found else value
