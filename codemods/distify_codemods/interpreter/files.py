"""Paths and files: what a path was made of, whether a file is opened for writing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.interpreter import folders
from distify_codemods.libraries import effects, listings, outside, paths
from distify_codemods.objects import Arguments, External, Sequence
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import Answer, Origin
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_OF_THE_PROCESS = ("time", "machine")


def seen_by_itself(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Ordered[Obj | str]:
    """Where the value of a library's function differs from process to process, for what it is worth to a path."""
    found: Ordered[Obj | str] = EMPTY
    if outside.is_of_the_machine(name) or tells_only(name, arguments):
        found = Ordered(["machine"])
    if found or outside.is_of_the_clock(name):
        found = found | machine.made(Answer, node).alone
    if name in paths.OWN:
        found = found | machine.made(Origin, node, name=name).alone
    if name.startswith(paths.CARRY):
        found = found.union(*(origins(value) for value in arguments.all()))
    return found


def carried(
    machine: Machine, receiver: Value, name: str, arguments: Arguments, value: Value, node: cst.CSTNode
) -> Value:
    """The result of a method: what goes into it may differ from process to process, or it asks the disk."""
    sources: Ordered[Obj | str] = EMPTY.union(origins(receiver), *(origins(one) for one in arguments.all()))
    if name in listings.METHODS and not any(isinstance(obj, Const) for obj in receiver.objs):
        sources = sources.union(["file"], machine.made(Origin, node, name=name).alone)
    if any(isinstance(obj, External) and obj.name == paths.OF_THE_SYSTEM for obj in receiver.objs):
        sources = sources.union(machine.made(Origin, node, name=paths.OF_THE_SYSTEM).alone)
    if any(isinstance(obj, External) for obj in receiver.objs):
        sources = sources.union(_answers(receiver))  # `psutil.Process().cpu_percent()`
    return value.adding(sources) if sources else value


def _answers(value: Value) -> Ordered[Obj | str]:
    return Ordered(source for source in value.sources if source in _OF_THE_PROCESS or isinstance(source, Answer))


def origins(value: Value) -> Ordered[Obj | str]:
    """What it was made of that each process has for itself: nothing that is called takes that away."""
    return Ordered(source for source in value.sources if isinstance(source, Origin))


def of_the_disk(value: Value) -> Ordered[Obj | str]:
    """Where the disk was asked, of which it was made."""
    return Ordered(one for one in value.sources if isinstance(one, Origin) and listings.is_of_the_disk(one.name))


def joined_path(machine: Machine, node: cst.BinaryOperation, left: Value, right: Value, value: Value) -> Value:
    """`folder / "name"` is a path again, and `folder + "/name"` the text of one."""
    text = isinstance(node.right, (cst.SimpleString, cst.FormattedString, cst.ConcatenatedString))
    made = None
    if isinstance(node.operator, cst.Add):
        made = folders.put_together(machine, node, [left, right])
    elif isinstance(node.operator, cst.Modulo):
        made = folders.filled_in(machine, node, left.constant(), [right])
    if made is not None:
        return replace(value, objs=value.objs | [made])
    if isinstance(node.operator, cst.Divide) and (text or any(_is_path(obj) for obj in left.objs)):
        path = machine.made(External, node, name=paths.PATH)
        parts = Arguments([left, right])
        path.arguments = parts if path.arguments is None else path.arguments.joined(parts)
        return replace(value, objs=value.objs | [path])
    return value


def _is_path(obj: Obj) -> bool:
    return isinstance(obj, External) and obj.name.startswith("pathlib.")


def modes(name: str, arguments: Arguments) -> frozenset[str] | None:
    """In which modes a file may be opened; None where that is not known."""
    given, default = arguments.get(effects.told_by(name), effects.place_of_mode(name)), effects.default_mode(name)
    if given is None:
        return frozenset([default]) if arguments.double_star is None and arguments.star is None else None
    plain = [obj.value for obj in given.objs if isinstance(obj, Const)]
    known = [one for one in plain if isinstance(one, str)]
    known += ["r+" if one else default for one in plain if one is None or isinstance(one, bool)]
    named = [obj.name.rpartition("_")[2] for obj in given.objs if isinstance(obj, Ref)]  # `cv2.FILE_STORAGE_WRITE`
    known += [one[0].lower() for one in named if one in ("READ", "WRITE", "APPEND")]
    return frozenset(known) if known and len(known) == len(given.objs) else None


def tells_only(name: str, arguments: Arguments) -> bool:
    """Whether a command that is run is seen to do nothing but answer: `check_output(["git", "rev-parse", "HEAD"])`."""
    return outside.tells_only(name, words_of(arguments))


def words_of(arguments: Arguments) -> tuple[str, ...]:
    """The words of a command that is run, `?` for one that is not seen; none where it is not seen at all."""
    given = arguments.positional[0] if arguments.positional else arguments.get("args", 0)
    obj = given.single() if given is not None and not given.open else None
    if isinstance(obj, Sequence):
        return tuple(str(one.constant() or "?") for one in obj.items or ())
    text = given.constant() if given is not None else None
    return tuple(text.split()) if isinstance(text, str) and "\n" not in text.strip() else ()


def is_written(modes: frozenset[str] | None) -> bool | None:
    """Whether a file that is opened in one of these modes is written to; None where it may be."""
    if modes is None:
        return None
    writing = {bool(set(mode) & set("wax+")) for mode in modes}
    return writing.pop() if len(writing) == 1 else None


def writes_to_a_file(obj: External) -> bool:
    return is_written(modes(obj.name, obj.arguments or Arguments())) is True
