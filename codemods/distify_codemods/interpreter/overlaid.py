"""What an attribute is until the script sets it: where it may come by that line or not, it may be either from there on.

`if not torch.cuda.is_available(): args.device = "cpu"` leaves what the command line said on a machine with a GPU. That
it is set in any case is seen where nothing has been decided between the making of the object and the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.events import Here
from distify_codemods.interpreter import settings
from distify_codemods.objects import Class, External, Instance
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: Around what is done whenever it is come to: of a loop there may be no turn, and of an attempt only a part.
_CERTAIN = (cst.With, cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.Module)


def left(machine: Machine, holder: Obj, name: str, value: Value, node: cst.CSTNode) -> Value:
    """What the attribute may still be once it is set to `value`; NOTHING where it is that value."""
    if name in holder.attributes or _is_certain(machine, holder, node):
        return NOTHING
    if isinstance(holder, External):
        if settings.are_parsed(holder):
            return settings.setting_of(machine, holder, name) if settings.may_be_declared(machine, name) else NOTHING
        return Value(open=True) if value.are_literals else NOTHING  # a library's object, and it was something before
    if isinstance(holder, Instance):
        return (holder.of and holder.of.member(name)) or NOTHING
    inherited = (base.attributes.get(name) for base in holder.order[1:]) if isinstance(holder, Class) else ()
    return next(filter(None, inherited), NOTHING)


def _is_certain(machine: Machine, holder: Obj, node: cst.CSTNode) -> bool:
    """Whether the line comes whenever the object is made."""
    if isinstance(node, cst.Call) and not isinstance(machine.frame.module.parents.get(node), cst.Expr):
        return False  # `found or setattr(args, "mode", "slow")`
    made = machine.made_at.get(holder)
    before = list(made.up()) if made is not None else []
    decided = {_arm(here) for here in before}
    entered = {id(here.frame.returned) for here in before}
    return all(
        (_arm(here) in decided or here.is_decided or not here.arm or isinstance(here.node, _CERTAIN))
        and (id(here.frame.returned) in entered or not here.frame.returned)
        for here in machine.here.up()
    )


def _arm(here: Here) -> tuple[object, ...]:
    return here.node, here.arm, here.frame.context
