"""`sys.path.append(...)`: where a script makes Python look for modules, as far as its code says so."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Ref
from distify_codemods.libraries import python
from distify_codemods.objects import Arguments
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: Methods that name the same folder in another way.
_SAME_METHODS = frozenset(["resolve", "absolute", "as_posix"])


def append(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    for folder in _folders(machine, node):
        if folder not in machine.program.search_path:
            machine.program.search_path.append(folder)
    return NOTHING


def insert(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    for folder in reversed(_folders(machine, node)):
        if folder not in machine.program.search_path:
            machine.program.search_path.insert(0, folder)
    return NOTHING


def _folders(machine: Machine, node: cst.CSTNode) -> list[str]:
    """What the last argument names. A relative folder is taken to be seen from the script's, or from where it runs."""
    if not isinstance(node, cst.Call) or not node.args:
        return []
    folder = _folder(machine, node.args[-1].value)
    if folder is None:
        return []
    if os.path.isabs(folder) or _mentions_file(machine, node.args[-1].value):
        return [folder]
    return [os.path.join(os.path.dirname(machine.program.entry.path), folder), folder]


def _mentions_file(machine: Machine, node: cst.CSTNode) -> bool:
    for one in tree.walk(node):
        if isinstance(one, cst.Name):
            definition = _definition(machine, one)
            if one.value == "__file__" or (definition is not None and _mentions_file(machine, definition)):
                return True
    return False


def _definition(machine: Machine, name: cst.Name) -> cst.CSTNode | None:
    """The expression that a file binds a name to, if it is the only one at its top level."""
    found = [
        small.value
        for line in machine.frame.module.tree.body
        if isinstance(line, cst.SimpleStatementLine)
        for small in line.body
        if isinstance(small, cst.Assign)
        and name.value in [one for target in small.targets for one in tree.target_names(target.target)]
    ]
    mentions = bool(found) and any(isinstance(one, cst.Name) and one.value == name.value for one in tree.walk(found[0]))
    return found[0] if len(found) == 1 and not mentions else None


def _folder(machine: Machine, node: cst.CSTNode | None) -> str | None:
    """A path as the code spells it: constants, `__file__`, and what os.path and pathlib make of them."""
    if isinstance(node, cst.Call):
        return _called(machine, node)
    if isinstance(node, cst.Attribute) and node.attr.value == "parent":
        return _above(_folder(machine, node.value))
    if isinstance(node, cst.Subscript) and isinstance(node.value, cst.Attribute) and node.value.attr.value == "parents":
        return _far_above(_folder(machine, node.value.value), node.slice[0].slice)
    if isinstance(node, cst.BinaryOperation):
        parts = [_folder(machine, node.left), _folder(machine, node.right)]
        if isinstance(node.operator, cst.Divide):
            return _joined(parts)
        return None if None in parts or not isinstance(node.operator, cst.Add) else f"{parts[0]}{parts[1]}"
    if not isinstance(node, cst.BaseExpression):
        return None
    known = machine.values.get(node, NOTHING).single()
    if isinstance(known, Const):
        return known.value if isinstance(known.value, str) else None
    if isinstance(known, Ref):
        return python.SIGNS.get(known.name)
    return _folder(machine, _definition(machine, node)) if isinstance(node, cst.Name) else None


def _far_above(folder: str | None, index: cst.BaseSlice) -> str | None:
    """`path.parents[2]`"""
    number = tree.integer(index.value) if isinstance(index, cst.Index) else None
    for _ in range(-1, number if number is not None and number >= 0 else -1):
        folder = _above(folder)
    return folder if number is not None else None


def _called(machine: Machine, node: cst.Call) -> str | None:
    function = machine.values.get(node.func, NOTHING).single()
    name = function.name if isinstance(function, Ref) else ""
    given = [_folder(machine, argument.value) for argument in node.args]
    if name in python.SAME_FOLDER and given:
        return _joined(given)
    if name == python.ABOVE:
        return _above(given[0])
    if name == python.INSIDE:
        return _joined(given)
    if name in python.HERE:
        return "."
    if isinstance(node.func, cst.Attribute):
        folder = _folder(machine, node.func.value)
        if node.func.attr.value in _SAME_METHODS:
            return folder
        return _joined([folder, *given]) if node.func.attr.value == "joinpath" else None
    return None


def _above(folder: str | None) -> str | None:
    """The folder above; `..` cannot be shortened."""
    if folder is None:
        return None
    folder = os.path.normpath(folder)
    return os.path.join(folder, "..") if os.path.basename(folder) in ("..", ".", "") else os.path.dirname(folder) or "."


def _joined(parts: list[str | None]) -> str | None:
    known = [part for part in parts if part is not None]
    return os.path.join(*known) if known and len(known) == len(parts) else None
