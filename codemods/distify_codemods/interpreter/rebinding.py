"""Attributes that `__init__` sets, and then sets anew: until it does, and not after, the object has the first value.

`self.net = Decoder(); self.net = Wrapper(self.net)` leaves one attribute, not one of two.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.objects import Instance
from distify_codemods.values import Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def is_passing(machine: Machine, holder: Obj, name: str, value: Value) -> bool:
    """Whether a value that an attribute is set to is gone when `__init__` ends; it is kept until then."""
    key = (holder, name)
    statement = _own_statement(machine, holder)
    assigned = _set_again(machine.frame.node).get(name, ()) if statement is not None else ()
    if assigned and statement is assigned[-1]:
        machine.passing.pop(key, None)
        return False
    if statement in assigned:
        machine.passing[key] = value
        return True
    if key in machine.passing:
        machine.passing[key] = join(machine.passing[key], value)
        return True
    return False


def settle(machine: Machine, holder: Instance) -> None:
    """`__init__` has ended, perhaps before it came to set an attribute anew."""
    for key in [key for key in machine.passing if key[0] is holder]:
        machine.keep(holder.attributes, key[1], machine.passing.pop(key), holder)


def _own_statement(machine: Machine, holder: Obj) -> cst.CSTNode | None:
    """The statement of the object's `__init__` that is run, if it is one that nothing stands around."""
    here, function = machine.here, machine.frame.node
    if here.parent is None or here.parent.node is not function or not isinstance(function, cst.FunctionDef):
        return None
    owner = _first_parameter(function)
    own = machine.frame.env.get(owner) if owner is not None and function.name.value == "__init__" else None
    return here.node if own is not None and own.single() is holder else None


def _first_parameter(function: cst.FunctionDef) -> str | None:
    params = (*function.params.posonly_params, *function.params.params)
    return params[0].name.value if params else None


@lru_cache(maxsize=4096)
def _set_again(function: cst.FunctionDef) -> dict[str, tuple[cst.CSTNode, ...]]:
    """The statements of a body that set each attribute, of those that are set by several."""
    owner = _first_parameter(function)
    found: dict[str, tuple[cst.CSTNode, ...]] = {}
    if any(isinstance(node, (cst.Return, cst.FunctionDef)) for node in tree.walk(function.body)):
        return found  # it may end before
    for line in function.body.body:
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            continue
        name = _attribute_set(line.body[0], owner)
        if name is not None:
            found[name] = (*found.get(name, ()), line)
    return {name: lines for name, lines in found.items() if len(lines) > 1}


def _attribute_set(statement: cst.CSTNode, owner: str | None) -> str | None:
    """`name` of `self.name = value`."""
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        if isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name) and target.value.value == owner:
            return target.attr.value
    return None
