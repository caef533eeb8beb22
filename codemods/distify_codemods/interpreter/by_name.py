"""Modules that are imported by a name in a text: `import_module(f"models.{name}")`, `__import__`.

Where part of the name shows only when the program runs, it may be any module that the folder has: all of them are
followed, as if one were imported here and nobody knew which.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const
from distify_codemods.interpreter import imports, pooling
from distify_codemods.objects import Arguments, External
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_MOST = 64  # modules of a folder that are followed
_SOMETHING = None  # a part of a text that is not known
Part = str | None


def import_module(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    package = (arguments.get("package", 1) or NOTHING).constant()
    names = _names(machine, arguments.get("name", 0) or NOTHING, node, package if isinstance(package, str) else "")
    return _any(machine, [_module(machine, name, package) for name in names], node)


def dunder_import(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """Gives the topmost package, unless something is asked for of the module."""
    names = _names(machine, arguments.get("name", 0) or NOTHING, node, "")
    asked = arguments.get("fromlist", 3)
    if asked is not None:
        return _any(machine, [_module(machine, name, None) for name in names], node)
    known = [name for name in names if machine.program.local_module(machine.frame.module, name, 0) is not None]
    whole = [imports.package(machine, name) for name in known]
    other = [imports.reference(machine, name.split(".")[0]) for name in names if name not in known]
    return _any(machine, [*whole, *other], node)


def _any(machine: Machine, found: list[Value], node: cst.CSTNode) -> Value:
    if found:
        return join(*found)
    made = machine.made(External, node, "module", name="importlib.import_module")
    return Value(made.alone)


def _module(machine: Machine, name: str, package: object) -> Value:
    dots = len(name) - len(name.lstrip("."))
    importer, rest = machine.frame.module, name.lstrip(".")
    module = None
    if dots and isinstance(package, str):
        above = package.split(".")[: len(package.split(".")) - dots + 1]
        module = machine.program.local_module(importer, ".".join([*above, rest]), 0)
    module = module or machine.program.local_module(importer, rest, dots)
    if module is None:
        return imports.reference(machine, name)
    with pooling.perhaps(machine):
        return imports.local(machine, module)


# ---- which names it may be


def _names(machine: Machine, given: Value, node: cst.CSTNode, package: str) -> list[str]:
    known = [obj.value for obj in given.objs if isinstance(obj, Const) and isinstance(obj.value, str)]
    if known or not isinstance(node, cst.Call) or not node.args:
        return known
    return candidates(machine, parts_of(machine, node.args[0].value), package)


def candidates(machine: Machine, parts: list[Part], package: str) -> list[str]:
    """The names of the modules there are that a text may mean, of which the part behind the last dot is not known."""
    first = parts[0] if parts else None
    if not isinstance(first, str) or "." not in first:
        return []
    folder, _, start = first.rpartition(".")
    rest: list[Part] = [start, *parts[1:]]
    shape = re.compile("".join(r"\w+" if part is None else re.escape(part) for part in rest))
    level = len(first) - len(first.lstrip("."))
    place = folder.lstrip(".")
    if level and package:
        place, level = ".".join(filter(None, [*package.split(".")[: len(package.split(".")) - level + 1], place])), 0
    program, importer = machine.program, machine.frame.module
    found = [name for name in program.listed(importer, place, level) if shape.fullmatch(name)]
    return [f"{folder}.{name}" for name in found if len(found) <= _MOST and program.reads(importer, place, name, level)]


def shape_of(machine: Machine, node: cst.BaseExpression) -> re.Pattern[str]:
    """What a name looks like that is put together when the program runs: `"on_" + event`."""
    parts = parts_of(machine, node)
    return re.compile("".join(r"\w*" if part is None else re.escape(part) for part in parts))


def parts_of(machine: Machine, node: cst.BaseExpression) -> list[Part]:
    """A text as it is put together; None stands for what is not known of it."""
    return _merged(_parts(machine, node, 0))


def _parts(machine: Machine, node: cst.BaseExpression, depth: int) -> list[Part]:
    known = machine.values.get(node, NOTHING).constant()
    text = known if isinstance(known, str) else tree.string(node)
    if text is not None:
        return [text]
    if depth > 4:
        return [_SOMETHING]
    if isinstance(node, cst.FormattedString):
        pieces = [_piece(machine, one, depth) for one in node.parts]
        return [part for piece in pieces for part in piece]
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        return [*_parts(machine, node.left, depth + 1), *_parts(machine, node.right, depth + 1)]
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
        return _filled(tree.string(node.left), r"%[sdr]")
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return _called(machine, node, node.func, depth)
    if isinstance(node, cst.Name):
        here = machine.frame.env.get(node.value, NOTHING).constant()  # elsewhere it may be another one
        if isinstance(here, str):
            return [here]
        definition = _definition(machine, node)
        return _parts(machine, definition, depth + 1) if definition is not None else [_SOMETHING]
    return [_SOMETHING]


def _piece(machine: Machine, node: cst.BaseFormattedStringContent, depth: int) -> list[Part]:
    if isinstance(node, cst.FormattedStringExpression):
        return _parts(machine, node.expression, depth + 1)
    return [node.value] if isinstance(node, cst.FormattedStringText) else [_SOMETHING]


def _called(machine: Machine, node: cst.Call, func: cst.Attribute, depth: int) -> list[Part]:
    """`"models.{}".format(name)`, `".".join(["models", name])`"""
    text = tree.string(func.value)
    if func.attr.value == "format":
        return _filled(text, r"\{[^{}]*\}")
    listed = node.args[0].value if node.args else None
    if func.attr.value == "join" and text is not None and isinstance(listed, (cst.List, cst.Tuple)):
        items = [[text, *_parts(machine, one.value, depth + 1)] for one in listed.elements]
        return [part for item in items for part in item][1:]
    return [_SOMETHING]


def _filled(text: str | None, gap: str) -> list[Part]:
    if text is None:
        return [_SOMETHING]
    pieces = re.split(gap, text)
    return [part for piece in pieces for part in (_SOMETHING, piece)][1:]


def _definition(machine: Machine, name: cst.Name) -> cst.BaseExpression | None:
    """The expression that a name is bound to, if it is the only one of its function or file."""
    found = [
        one.value
        for one in tree.walk(machine.frame.node)
        if isinstance(one, cst.Assign)
        and any(isinstance(target.target, cst.Name) and target.target.value == name.value for target in one.targets)
    ]
    return found[0] if len(found) == 1 else None


def _merged(parts: list[Part]) -> list[Part]:
    """Neighbours that are known as one text, empty ones left out."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, str) and isinstance(last, str):
            found[-1] = last + part
        elif part != "":
            found.append(part)
    return found
