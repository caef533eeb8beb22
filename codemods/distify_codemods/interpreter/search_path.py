"""`sys.path.append(...)`: where a script makes Python look for modules, as far as its values and its code say so.

A test around it (`if folder not in sys.path`) is not asked: a folder that is looked through once more shows
nothing new.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj, Ref
from distify_codemods.interpreter import folders, holding
from distify_codemods.libraries import python
from distify_codemods.objects import Arguments, Sequence
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def append(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    _put(machine, _folders(machine, *_last(machine, arguments, node)), first=False)
    return NOTHING


def insert(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    _put(machine, _folders(machine, *_last(machine, arguments, node)), first=True)
    return NOTHING


def extend(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    _put(machine, _listed(machine, *_last(machine, arguments, node)), first=False)
    return NOTHING


def is_it(obj: Obj) -> bool:
    return isinstance(obj, Ref) and obj.name == python.SEARCH_PATH


def grown(machine: Machine, target: Value, added: Value, node: cst.AugAssign) -> None:
    """`sys.path += [folder]`"""
    if any(map(is_it, target.objs)):
        _put(machine, _listed(machine, added, node.value), first=False)


def stored(machine: Machine, target: cst.BaseExpression, receiver: Value, value: Value) -> None:
    """`sys.path = [folder] + sys.path`, `sys.path[:0] = [folder]`, `sys.path[0] = folder`"""
    if isinstance(target, cst.Attribute):
        name = target.attr.value
        if any(isinstance(obj, Ref) and f"{obj.name}.{name}" == python.SEARCH_PATH for obj in receiver.objs):
            _put(machine, _listed(machine, value, None), first=not _goes_behind(machine, value))
    elif isinstance(target, cst.Subscript) and any(map(is_it, receiver.objs)):
        sliced = any(isinstance(element.slice, cst.Slice) for element in target.slice)
        _put(machine, _listed(machine, value, None) if sliced else _folders(machine, value, None), first=True)


def _goes_behind(machine: Machine, value: Value) -> bool:
    """`sys.path + [folder]`, `[*sys.path, folder]`"""
    site = next((obj.site for obj in value.objs if isinstance(obj, Sequence)), None)
    first: cst.CSTNode | None = None
    if isinstance(site, cst.BinaryOperation):
        first = site.left
    elif isinstance(site, (cst.List, cst.Tuple)) and site.elements:
        first = site.elements[0].value
    return isinstance(first, cst.BaseExpression) and any(map(is_it, machine.values.get(first, NOTHING).objs))


def _put(machine: Machine, found: Iterable[str], first: bool) -> None:
    search_path = machine.program.search_path
    new = [folder for folder in dict.fromkeys(found) if folder not in search_path]
    if first:
        search_path[:0] = new
    else:
        search_path += new


def _last(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> tuple[Value, cst.CSTNode | None]:
    """The last argument, and the expression of it, where there is one: not of `map(sys.path.append, folders)`."""
    value = arguments.positional[-1] if arguments.positional else NOTHING
    if not isinstance(node, cst.Call) or not node.args:
        return value, None
    called = machine.values.get(node.func, NOTHING).single()
    direct = isinstance(called, Ref) and called.name.startswith(f"{python.SEARCH_PATH}.")
    return value, node.args[-1].value if direct else None


def _listed(machine: Machine, value: Value, node: cst.CSTNode | None) -> list[str]:
    """What the items of a list name."""
    written = [one.value for one in node.elements] if isinstance(node, (cst.List, cst.Tuple, cst.Set)) else []
    found: list[str] = []
    for obj in value.objs:
        if isinstance(obj, Sequence):
            parts = obj.items or (holding.any_item(Value(obj.alone)),)
            as_written = len(written) == len(parts)
            for number, part in enumerate(parts):
                found += _folders(machine, part, written[number] if as_written else None)
    return found


def _folders(machine: Machine, value: Value, node: cst.CSTNode | None) -> list[str]:
    """What a path may name. A relative folder is taken to be seen from the script's, or from where it runs."""
    found: list[str] = []
    for folder in folders.named(machine, value, node):
        if os.path.isabs(folder.text) or folder.of_a_file:
            found.append(folder.text)
        else:
            found += [os.path.join(os.path.dirname(machine.program.entry.path), folder.text), folder.text]
    return found
