"""Where a path leads: its text, as far as values and code say what it was put together of.

A path that a variable holds, in a list, in a turn of a loop or in a helper function, is known by the objects that
made it: what `os.path.join` returned knows what it was given, `path.parent` whose attribute it is. A text without any
is known as the code spells it.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.libraries import paths, python
from distify_codemods.objects import Arguments, External
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_DEEPEST = 12
_MOST = 16  # that one expression may name


class Folder(NamedTuple):
    """A path, by its text. `of_a_file`: it is reckoned from where a file of the program lies."""

    text: str
    of_a_file: bool = False


def named(machine: Machine, value: Value, node: cst.CSTNode | None = None, depth: int = 0) -> tuple[Folder, ...]:
    """What a value may name; in place of objects that say nothing, what the expression `node` spells."""
    if depth > _DEEPEST:
        return ()
    found = [one for obj in value.objs for one in _of(machine, obj, depth + 1)]
    return _few(found or (_spelled(machine, node, depth + 1) if node is not None else ()))


def is_a_path(machine: Machine, obj: Obj) -> bool:
    """Whether it is seen to be a path, or the text of one."""
    if isinstance(obj, External):
        return paths.makes_a_path(obj.name) or obj.name in (python.TEXT, python.PUT_TOGETHER, *python.HERE)
    return _is_of_a_file(machine, obj)


def put_together(machine: Machine, node: cst.CSTNode, parts: Iterable[Value]) -> External | None:
    """The text that a path and others make; None where none of them is a path."""
    given = list(parts)
    if not any(is_a_path(machine, obj) for one in given for obj in one.objs):
        return None
    made = machine.made(External, node, "text", name=python.PUT_TOGETHER)
    more = Arguments(given)
    made.arguments = more if made.arguments is None else made.arguments.joined(more)
    return made


def filled_in(machine: Machine, node: cst.CSTNode, template: object, given: list[Value]) -> External | None:
    """`"%s/lib" % path`, `"{}/lib".format(path)`"""
    for place, other in (("%s", "%"), ("{}", "{")) if isinstance(template, str) else ():
        between = template.split(place) if isinstance(template, str) else []
        if len(between) - 1 == len(given) > 0 and not any(other in text for text in between):
            texts = [machine.literal(node, text) for text in between]
            parts = [texts[0], *(one for pair in zip(given, texts[1:], strict=True) for one in pair)]
            return put_together(machine, node, parts)
    return None


def of_a_path(machine: Machine, obj: External, name: str, node: cst.Attribute, receiver: Value) -> Value | None:
    """`path.parent`, which is a path again, and `path.parents`."""
    if not obj.name.startswith(paths.OF_PATHS) or name not in (python.PARENT, python.PARENTS):
        return None
    made = machine.made(External, node, name, name=f"{paths.PATH}.{name}")
    made.receiver = receiver if made.receiver is None else made.receiver.of(made.receiver.objs | receiver.objs)
    return receiver.of(made.alone)


# ---- by objects


def _of(machine: Machine, obj: Obj, depth: int) -> Iterable[Folder]:
    if isinstance(obj, Const):
        return [Folder(obj.value, _is_of_a_file(machine, obj))] if isinstance(obj.value, str) else []
    if isinstance(obj, Ref):
        return [Folder(python.SIGNS[obj.name])] if obj.name in python.SIGNS else []
    return _made(machine, obj, depth) if isinstance(obj, External) else []


def _is_of_a_file(machine: Machine, obj: Obj) -> bool:
    """Whether it is `__file__`, of whichever module of the program."""
    return isinstance(obj, Const) and obj.site is None and obj.value in machine.program.modules


def _made(machine: Machine, obj: External, depth: int) -> Iterable[Folder]:
    name, _, last = obj.name.rpartition(".")
    given = obj.arguments or Arguments()
    if obj.name in python.OF_A_FRAME and obj.module is not None:
        asked = given.first.single()
        own = isinstance(asked, External) and asked.name == python.THIS_FRAME
        return [Folder(obj.module.path, of_a_file=True)] if own else ()
    if name.startswith(paths.OF_PATHS) and obj.receiver is not None:
        whole = named(machine, obj.receiver, depth=depth)
        if last in python.SAME_FOLDER_OF_A_PATH:
            return whole
        if last == python.PARENT:
            return map(_above, whole)
        more = [named(machine, one, depth=depth) for one in given.positional]
        return _joined([whole, *more]) if last == python.INSIDE_OF_A_PATH else ()
    if obj.whole is not None:
        return _item(machine, obj, depth)
    if given.star is not None and obj.name not in python.HERE:
        return ()
    return _called(machine, obj.name, [named(machine, one, depth=depth) for one in given.positional])


def _item(machine: Machine, obj: External, depth: int) -> Iterable[Folder]:
    """`path.parents[2]`, `os.path.split(path)[0]`"""
    index = obj.site.slice[0].slice if isinstance(obj.site, cst.Subscript) and len(obj.site.slice) == 1 else None
    number = tree.integer(index.value) if isinstance(index, cst.Index) else None
    of = obj.whole
    if number is None or number < 0 or not isinstance(of, External):
        return ()
    if of.name == python.HEAD_AND_TAIL and number == 0 and of.arguments is not None:
        return map(_above, named(machine, of.arguments.first, depth=depth))
    if of.name != f"{paths.PATH}.{python.PARENTS}" or of.receiver is None:
        return ()
    return (_far_above(one, number) for one in named(machine, of.receiver, depth=depth))


def _called(machine: Machine, name: str, given: list[tuple[Folder, ...]]) -> Iterable[Folder]:
    """What a function of a library makes of paths."""
    if name in python.HERE:
        return [Folder(".")]
    if not given:
        return ()
    if name == python.ABOVE:
        return map(_above, given[0])
    if name == python.PUT_TOGETHER:
        return (_together(one) for one in _combined(given))
    return _joined(given) if name == python.INSIDE or name in python.SAME_FOLDER else ()


# ---- as the code spells it


def _spelled(machine: Machine, node: cst.CSTNode, depth: int) -> Iterable[Folder]:
    """Texts that are put together of others; names that are bound once, at the top of a file."""
    if isinstance(node, cst.Call):
        return _spelled_call(machine, node, depth)
    if isinstance(node, cst.Attribute) and node.attr.value == python.PARENT:
        return map(_above, _told(machine, node.value, depth))
    if isinstance(node, cst.Subscript):
        return _spelled_item(machine, node, depth)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Divide)):
        parts = [_told(machine, node.left, depth), _told(machine, node.right, depth)]
        return _joined(parts) if isinstance(node.operator, cst.Divide) else map(_together, _combined(parts))
    if isinstance(node, cst.ConcatenatedString):
        return map(_together, _combined([_told(machine, one, depth) for one in (node.left, node.right)]))
    if isinstance(node, cst.FormattedString):
        return map(_together, _combined([_of_part(machine, part, depth) for part in node.parts]))
    definition = _definition(machine, node) if isinstance(node, cst.Name) else None
    return _told(machine, definition, depth) if definition is not None else ()


def _told(machine: Machine, node: cst.CSTNode, depth: int) -> tuple[Folder, ...]:
    """A name is what it is in this turn and this call, whatever else it was before."""
    if isinstance(node, cst.Name):
        value = machine.lookup(node.value)
    else:
        value = machine.values.get(node, NOTHING) if isinstance(node, cst.BaseExpression) else NOTHING
    return named(machine, value, node, depth)


def _of_part(machine: Machine, part: cst.BaseFormattedStringContent, depth: int) -> tuple[Folder, ...]:
    if isinstance(part, cst.FormattedStringText):
        return () if set(part.value) & set("{}\\") else (Folder(part.value),)
    plain = isinstance(part, cst.FormattedStringExpression) and part.conversion is None and part.format_spec is None
    return _told(machine, part.expression, depth) if plain and isinstance(part, cst.FormattedStringExpression) else ()


def _spelled_item(machine: Machine, node: cst.Subscript, depth: int) -> Iterable[Folder]:
    """`path.parents[2]`; and `sys.path[0]`, which is where the script lies, and `sys.argv[0]`, the script."""
    index = node.slice[0].slice if len(node.slice) == 1 else None
    number = tree.integer(index.value) if isinstance(index, cst.Index) else None
    if number is None or number < 0:
        return ()
    of = machine.values.get(node.value, NOTHING).single()
    if number == 0 and isinstance(of, Ref) and of.name in (python.SEARCH_PATH, python.COMMAND_LINE):
        script = Folder(machine.program.entry.path, of_a_file=True)
        return [_above(script) if of.name == python.SEARCH_PATH else script]
    if isinstance(node.value, cst.Attribute) and node.value.attr.value == python.PARENTS:
        return (_far_above(one, number) for one in _told(machine, node.value.value, depth))
    return ()


def _spelled_call(machine: Machine, node: cst.Call, depth: int) -> Iterable[Folder]:
    function = machine.values.get(node.func, NOTHING).single()
    given = [_told(machine, argument.value, depth) for argument in node.args]
    if isinstance(function, Ref):
        return _called(machine, function.name, given)
    if not isinstance(node.func, cst.Attribute):
        return ()
    whole = _told(machine, node.func.value, depth)
    if node.func.attr.value in python.SAME_FOLDER_OF_A_PATH:
        return whole
    return _joined([whole, *given]) if node.func.attr.value == python.INSIDE_OF_A_PATH else ()


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


# ---- texts


def _few(found: Iterable[Folder]) -> tuple[Folder, ...]:
    """Each once; of too many, which it is says nothing."""
    once = tuple(dict.fromkeys(found))
    return once if len(once) <= _MOST else ()


def _combined(given: list[tuple[Folder, ...]]) -> Iterator[tuple[Folder, ...]]:
    """Each way to choose one of each; nothing where one of them is not known, or there are too many."""
    count = 1
    for one in given:
        count *= len(one)
    return iter(product(*given)) if count <= _MOST else iter(())


def _joined(given: list[tuple[Folder, ...]]) -> Iterable[Folder]:
    return (
        Folder(os.path.join(*(one.text for one in parts)), any(one.of_a_file for one in parts))
        for parts in _combined(given)
    )


def _together(parts: tuple[Folder, ...]) -> Folder:
    return Folder("".join(one.text for one in parts), any(one.of_a_file for one in parts))


def _above(folder: Folder) -> Folder:
    """The folder above; `..` cannot be shortened."""
    text = os.path.normpath(folder.text)
    parent = os.path.join(text, "..") if os.path.basename(text) in ("..", ".", "") else os.path.dirname(text) or "."
    return Folder(parent, folder.of_a_file)


def _far_above(folder: Folder, number: int) -> Folder:
    """`path.parents[2]`"""
    for _ in range(number + 1):
        folder = _above(folder)
    return folder
