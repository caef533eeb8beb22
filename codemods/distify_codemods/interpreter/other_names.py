"""The other names of a tensor: what a parameter was given, what an attribute or a name was made of.

Tensors are values here, which have no identity: another name is found by the text that gave it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.libraries import in_place, python
from distify_codemods.module import Module
from distify_codemods.objects import Arguments, Instance
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING

if TYPE_CHECKING:
    from distify_codemods.interpreter.frames import Frame
    from distify_codemods.interpreter.machine import Machine

#: An expression, and the activation that it was evaluated in.
Place = tuple["Frame", cst.BaseExpression]
#: What autograd's context gives a backward pass of what the forward pass has left with it.
_SAVED = ("saved_tensors", "saved_variables")
_OF_SAMPLES = PER_SAMPLE | {Scale.COUPLED}


def others(machine: Machine, frame: Frame, root: cst.Name | cst.Attribute) -> Iterator[Place]:
    """What else stands for the tensor that `root` is read as."""
    if isinstance(root, cst.Attribute):
        for obj in machine.values.get(root.value, NOTHING).objs:
            if (place := machine.named.get((obj, root.attr.value))) is not None:
                yield place
        return
    for binding in frame.module.flow(root).reaching(root):
        if isinstance(binding, cst.Param):
            given = frame.given.get(root.value)
            if given is not None and frame.caller is not None and is_a_place(given):
                yield frame.caller, given
        elif (made := _assigned(frame, binding)) is not None:
            if isinstance(made, tuple):
                yield from _unpacked(machine, *made)
            else:
                yield frame, made
        elif (over := _gone_through(machine, frame.module, binding)) is not None and _has_rows(machine, over):
            yield frame, over


def _assigned(frame: Frame, binding: cst.CSTNode) -> cst.BaseExpression | tuple[cst.Attribute, int] | None:
    """`m = self.memory`, also of several at once; of `x, memory = ctx.saved_tensors`, what is unpacked, and where."""
    parents = frame.module.parents
    target = parents.get(binding)
    position = None
    if isinstance(target, cst.Element) and isinstance(several := parents.get(target), cst.Tuple):
        position = list(several.elements).index(target)
        target = parents.get(several)
    holder = parents.get(target) if isinstance(target, cst.AssignTarget) else target
    if not isinstance(holder, (cst.Assign, cst.AnnAssign)) or holder.value is None:
        return None
    given: cst.BaseExpression = holder.value
    if position is not None and isinstance(given, cst.Tuple) and position < len(given.elements):
        given, position = given.elements[position].value, None
    if position is None or _are_pieces(given):
        given = _as_a_list(given)
        return given if is_a_place(given) else None
    saved = isinstance(holder.value, cst.Attribute) and holder.value.attr.value in _SAVED
    return (holder.value, position) if saved and isinstance(holder.value, cst.Attribute) else None


def _has_rows(machine: Machine, node: cst.BaseExpression) -> bool:
    """Whether it is a place of samples, and no list of other things."""
    return is_a_place(node) and machine.values.get(node, NOTHING).scale in _OF_SAMPLES


def _are_pieces(node: cst.BaseExpression) -> bool:
    """`x.chunk(2)`"""
    method = node.func if isinstance(node, cst.Call) else None
    return isinstance(method, cst.Attribute) and method.attr.value in in_place.PIECES


def _as_a_list(node: cst.BaseExpression) -> cst.BaseExpression:
    """`x` of `list(x)`"""
    plain = isinstance(node, cst.Call) and len(node.args) == 1 and tree.dotted(node.func) in ("list", "tuple")
    return node.args[0].value if plain and isinstance(node, cst.Call) else node


def _gone_through(machine: Machine, module: Module, binding: cst.CSTNode) -> cst.BaseExpression | None:
    """`x` of `for row in x`, `for i, row in enumerate(x)`, `for row, target in zip(x, y)`."""
    positions: list[int] = []
    target, holder = binding, module.parents.get(binding)
    while isinstance(holder, cst.Element) and isinstance(several := module.parents.get(holder), (cst.Tuple, cst.List)):
        positions.append(list(several.elements).index(holder))
        target, holder = several, module.parents.get(several)
    if not isinstance(holder, (cst.For, cst.CompFor)) or holder.target is not target:
        return None
    over: cst.BaseExpression = holder.iter
    while positions and isinstance(over, cst.Call):
        position, called = positions.pop(), machine.values.get(over.func, NOTHING).single()
        name = called.name if isinstance(called, Ref) else ""
        if name == python.COUNTS and position == 1 and over.args:
            over = over.args[0].value
        elif name == python.ZIP and position < len(over.args) and not any(one.star for one in over.args):
            over = over.args[position].value
        else:
            return None
    return None if positions else _as_a_list(over)


def _unpacked(machine: Machine, several: cst.Attribute, position: int) -> Iterator[Place]:
    for obj in machine.values.get(several.value, NOTHING).objs:
        if (place := machine.named.get((obj, f"{_SAVED[0]}[{position}]"))) is not None:
            yield place


def is_a_place(node: cst.BaseExpression) -> bool:
    """A name, an attribute, or a view or a part of one: what is written into it is written there."""
    while True:
        if isinstance(node, cst.Subscript):
            node = node.value
        elif (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and (node.func.attr.value in in_place.VIEWS or node.func.attr.value in in_place.PIECES)
        ):
            node = node.func.value
        else:
            return isinstance(node, (cst.Name, cst.Attribute))


# ---- what gives names


def give(frame: Frame, caller: Frame, parameters: list[str], arguments: Arguments, node: cst.CSTNode) -> None:
    """The parameters of a call, as its text has what they are given; the first may come from elsewhere: `self`."""
    if not isinstance(node, cst.Call) or any(one.star for one in node.args):
        return
    plain = [one.value for one in node.args if one.keyword is None]
    ahead = len(arguments.positional) - len(plain)
    found = dict(zip(parameters[ahead:], plain, strict=False)) if ahead >= 0 else {}
    found.update(tree.keywords(node))
    frame.caller, frame.given = caller, found


def keep(machine: Machine, holder: Obj, target: cst.Attribute) -> None:
    """`self.memory = memory`"""
    parents = machine.frame.module.parents
    parent = parents.get(target)
    statement = parents.get(parent) if isinstance(parent, cst.AssignTarget) else None
    if isinstance(statement, cst.Assign) and is_a_place(statement.value):
        machine.named[holder, target.attr.value] = machine.frame, statement.value


def hand_on(machine: Machine, holder: Obj, other: Obj) -> None:
    """What one has of the other's, it has by the same names."""
    found = [(name, place) for (obj, name), place in machine.named.items() if obj is holder]
    machine.named.update(((other, name), place) for name, place in found)


def save(machine: Machine, context: Obj, node: cst.CSTNode) -> None:
    """`ctx.save_for_backward(x, memory)`"""
    if isinstance(context, Instance) and isinstance(node, cst.Call):
        for position, one in enumerate(node.args):
            if not one.star and is_a_place(one.value):
                machine.named[context, f"{_SAVED[0]}[{position}]"] = machine.frame, one.value
