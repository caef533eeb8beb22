"""Where attributes are put, whatever has them: nothing that is stored is lost from sight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.inside import core
from distify_codemods.interpreter import classes, elsewhere, holding, modules, overlaid
from distify_codemods.objects import Arguments, Bound, Class, External, Function, Instance, Local
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_SETTER = "__setattr__"


def set_attribute(machine: Machine, receiver: Value, name: str, value: Value, node: cst.CSTNode) -> None:
    """`receiver.name = value`, also by `setattr`: through what a class has for it, if it has anything."""
    for obj in map(core, receiver.objs):
        own = _setter(machine, obj)
        if own is not None:
            machine.call(own, Arguments([machine.literal(None, name), value]), node)
        elif not isinstance(obj, Instance) or not holding.set_as_attribute(machine, obj, name, value):
            put(machine, obj, name, value, node)
            if obj is receiver.single() and not receiver.open:
                overlaid.no_longer_none(machine, obj, name, value, node)
    if not receiver.objs:
        elsewhere.put(machine, name, value)


def put(machine: Machine, obj: Obj, name: str, value: Value, node: cst.CSTNode) -> None:
    """As `object.__setattr__` does."""
    if isinstance(obj, Local) and obj.target is not None:
        machine.keep(machine.module_frame(obj.target).env, name, value)
    elif isinstance(obj, (Instance, External, Class)):
        classes.store(machine, obj, name, value, node)
        for part in modules.parts_with(obj, name):
            classes.store(machine, part, name, value, node)
    elif isinstance(obj, Function):
        machine.keep(obj.attributes, name, value, obj)
    else:
        elsewhere.put(machine, name, value)


def _setter(machine: Machine, obj: Obj) -> Value | None:
    """A `__setattr__` of a class of the script's; in itself, `self.x = ...` would call it for ever."""
    if not isinstance(obj, Instance) or obj.of is None or obj.of.member(_SETTER) is None:
        return None
    found = machine.attribute(obj, _SETTER)
    own = [one for one in found.objs if isinstance(one, Bound)]
    return found.of(own) if own else None
