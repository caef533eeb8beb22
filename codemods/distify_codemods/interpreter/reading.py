"""Whole objects that the program saves and reads again: of the classes that they had, whatever their weights are.

`torch.save([net, optimizer], path)` and `net, optimizer = torch.load(path)`: what comes back has the names that it was
saved under. Another object, for what was wrapped since is not what was saved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.libraries import checkpoints
from distify_codemods.objects import Arguments, External, Instance, Sequence
from distify_codemods.ordered import Ordered
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def read(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """What `torch.load` gives back where it is taken apart as it was put together; None where that is not seen."""
    around = machine.frame.module.parents.get(node)
    target = around.targets[0].target if isinstance(around, cst.Assign) and len(around.targets) == 1 else None
    names = _names(target)
    if not names or tuple(name.value for name in names) not in _names_saved(machine):
        return None
    items = machine.made(Sequence, node, "read")
    items.items = tuple(_as_saved(machine, name, arguments) for name in names)
    return Value(items.alone)


def _as_saved(machine: Machine, name: cst.Name, arguments: Arguments) -> Value:
    found: list[Obj] = []
    for obj in machine.lookup(name.value).objs:
        if isinstance(obj, Instance):
            copy = machine.made(Instance, name, obj, "read", of=obj.of, read=True)
            copy.attributes = obj.attributes
            found.append(copy)
    made = [machine.made(External, name, "read", name=checkpoints.LOAD, arguments=arguments, read=True)]
    return Value(Ordered(found or made))


def _names_saved(machine: Machine) -> set[tuple[str, ...]]:
    if machine.saved is None:
        calls = (
            node for module in machine.program.modules.values() for node in module.nodes if isinstance(node, cst.Call)
        )
        given = (_names(call.args[0].value) for call in calls if call.args and _saves(call))
        machine.saved = {tuple(name.value for name in names) for names in given if names}
    return machine.saved


def _saves(call: cst.Call) -> bool:
    return tree.dotted(call.func) == checkpoints.SAVE


def _names(node: cst.CSTNode | None) -> list[cst.Name]:
    """`a, b` and `[a, b]`."""
    if not isinstance(node, (cst.Tuple, cst.List)):
        return []
    values = [element.value for element in node.elements]
    names = [value for value in values if isinstance(value, cst.Name)]
    return names if len(names) == len(values) else []
