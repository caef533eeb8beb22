"""Names and attributes in a `collate_fn`: what stands outside of it, and what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import reads, tree
from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.interpreter import imports
from distify_codemods.interpreter.collate_forms import CONST, SMALL, UNKNOWN, Form, Kind, Named, Unseen
from distify_codemods.objects import Bound, Class, Function, Instance, Local
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.frames import Frame
    from distify_codemods.interpreter.machine import Machine


def known(value: Value) -> Form:
    """Something from outside; what is made of batches is none of it."""
    return Form(Kind.CONST, value=value) if value.scale is Scale.CONST else UNKNOWN


def constant(node: cst.BaseExpression) -> Form:
    value: object = None
    if isinstance(node, cst.Integer):
        value = int(node.value, 0)
    elif isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        value = tree.string(node)
    return Form(Kind.CONST, value=Value(Const(node, value=value).alone) if value is not None else NOTHING)


def text(node: cst.BaseExpression) -> str | None:
    return tree.string(node)


def literal(target: cst.Subscript) -> str | None:
    """`parts["x"]`"""
    index = target.slice[0].slice
    return text(index.value) if len(target.slice) == 1 and isinstance(index, cst.Index) else None


def outside(machine: Machine, function: Function, node: cst.Name) -> Form:
    if node.value in ("True", "False", "None"):
        value = {"True": True, "False": False, "None": None}[node.value]
        return Form(Kind.CONST, value=Value(Const(node, value=value).alone))
    frame: Frame | None = function.closure
    while frame is not None:
        reads.note_outer(frame, node.value, frame.env.get(node.value, reads.MISSING))
        if node.value in frame.env:
            return known(frame.env[node.value])
        frame = frame.parent
    if function.module is None:
        return CONST
    return known(machine.module_frame(function.module).env.get(node.value) or imports.builtin(machine, node.value))


def attribute(machine: Machine, of: Form, name: str) -> Form:
    if of.kind is Kind.TABLE:
        return of.items[of.names.index(name)] if name in of.names else UNKNOWN
    if of.kind is Kind.COLUMNS:
        return of.element
    if of.kind is not Kind.CONST:
        return Form(of.kind, padded=of.padded) if of.kind in SMALL else UNKNOWN
    found = [_of(machine, obj, name) for obj in of.value.objs]
    return known(found[0]) if len(found) == 1 and found[0] is not None else CONST


def _of(machine: Machine, obj: Obj, name: str) -> Value | None:
    if isinstance(obj, Ref):
        return imports.reference(machine, f"{obj.name}.{name}")
    if isinstance(obj, Local) and obj.target is not None:
        return machine.module_frame(obj.target).env.get(name)
    if name in obj.attributes:
        return obj.attributes[name]
    owner = obj.of if isinstance(obj, Instance) else obj
    if not isinstance(owner, Class):
        return None
    value = owner.member(name)
    function = value.single() if value is not None else None
    if isinstance(obj, Instance) and isinstance(function, Function):
        return Value(Bound(function.site, receiver=obj, function=function).alone)
    return value


def bound(machine: Machine, params: cst.Parameters, given: list[Form], named: Named) -> Named:
    """The parameters of a function by what a call gives them. Raises Unseen."""
    if params.star_kwarg is not None or isinstance(params.star_arg, cst.Param):
        raise Unseen
    places = [*params.posonly_params, *params.params]
    env = {one.name.value: form for one, form in zip(places, given, strict=False)}
    if len(given) > len(places) or named.keys() & env.keys():
        raise Unseen
    for one in (*places, *params.kwonly_params):
        name = one.name.value
        if name in named:
            env[name] = named[name]
        elif name not in env:
            if one.default is None:
                raise Unseen
            env[name] = known(machine.values.get(one.default, NOTHING))
    if named.keys() - env.keys():
        raise Unseen
    return env
