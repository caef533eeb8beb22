"""What an attribute is until the script sets it: where it may come by that line or not, it may be either from there on.

`if not torch.cuda.is_available(): args.device = "cpu"` leaves what the command line said on a machine with a GPU. That
it is set in any case is seen where nothing has been decided between the making of the object and the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.events import Here
from distify_codemods.interpreter import settings
from distify_codemods.interpreter.frames import CALLED
from distify_codemods.objects import Class, External, Instance
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine
    from distify_codemods.module import Module

#: Around what is done whenever it is come to; a loop may have no turn, and an attempt end before its end.
_CERTAIN = (cst.With, cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.Module)


def left(machine: Machine, holder: Obj, name: str, value: Value, node: cst.CSTNode) -> Value:
    """What the attribute may still be once it is set to `value`; NOTHING where it is that value."""
    if name in holder.attributes or _is_certain(machine, holder, node):
        return NOTHING
    if isinstance(holder, External):
        if settings.are_parsed(holder):
            is_one = settings.may_be_declared(machine, holder, name)
            return settings.setting_of(machine, holder, name) if is_one else NOTHING
        return Value(open=True) if value.are_literals else NOTHING  # a library's object, and it was something before
    if isinstance(holder, Instance):
        return (holder.of and holder.of.member(name)) or NOTHING
    inherited = (base.attributes.get(name) for base in holder.order[1:]) if isinstance(holder, Class) else ()
    return next(filter(None, inherited), NOTHING)


def _is_certain(machine: Machine, holder: Obj, node: cst.CSTNode) -> bool:
    """Whether the line comes whenever the object is made."""
    made = machine.made_at.get(holder)
    before = list(made.up()) if made is not None else []
    decided = {_arm(here) for here in before}
    entered = {id(here.frame.returned) for here in before}
    if not _is_sure(machine.frame.module, node):
        return False
    return all(
        (_arm(here) in decided or here.is_decided or not here.arm or isinstance(here.node, _CERTAIN))
        and (id(here.frame.returned) in entered or (not here.frame.returned and is_called_for_sure(here)))
        for here in machine.here.up()
    )


def is_called_for_sure(here: Here) -> bool:
    """Whether the call of a function comes whenever its statement does."""
    if here.arm != CALLED or here.parent is None or not here.frame.context:
        return True
    call = here.frame.context[-1]
    return not isinstance(call, cst.CSTNode) or _is_sure(here.parent.frame.module, call)


def _is_sure(module: Module, node: cst.CSTNode) -> bool:
    """Of a part of an expression: `found or setattr(args, "mode", "slow")` may leave it out."""
    around: cst.CSTNode | None = node
    while around is not None and not isinstance(around, (cst.BaseSmallStatement, cst.BaseStatement)):
        if isinstance(around, tree.PERHAPS):
            return False
        around = module.parents.get(around)
    return True


def _arm(here: Here) -> tuple[object, ...]:
    return here.node, here.arm, here.frame.context
