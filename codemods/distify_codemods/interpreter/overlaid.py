"""What an attribute is until the script sets it: where it may come by that line or not, it may be either from there on.

`if not torch.cuda.is_available(): args.device = "cpu"` leaves what the command line said on a machine with a GPU. That
it is set in any case is seen where nothing has been decided between the making of the object and the line. What comes
in any case, after `self.model = None`, leaves no None: whoever asks from there on finds a model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj
from distify_codemods.events import Here
from distify_codemods.interpreter import operators, settings
from distify_codemods.interpreter.frames import CALLED
from distify_codemods.objects import Class, External, Instance
from distify_codemods.ordered import Ordered
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine
    from distify_codemods.module import Module

#: Around what is done whenever it is come to; a loop may have no turn, and an attempt end before its end.
_CERTAIN = (cst.With, cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.Module)


def left(machine: Machine, holder: Obj, name: str, value: Value, node: cst.CSTNode) -> Value:
    """What the attribute may still be once it is set to `value`; NOTHING where it is that value."""
    if value.is_none and (holder, name) in machine.registered:
        return Value(open=True)  # `else: self.weight = None`, and a buffer of that name in the other arm
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


def no_longer_none(machine: Machine, holder: Obj, name: str, value: Value, node: cst.CSTNode) -> None:
    """An attribute that was None is none once it has been set to `value` in any case, or wherever it was None."""
    if not isinstance(holder, Instance) or value.open or not value.objs or (holder, name) in machine.passing:
        return
    before = holder.attributes.get(name)
    if before is None or not before.may_be_none or not all(map(operators.is_something, value.objs)):
        return
    if _is_certain(machine, holder, node, name):
        rest = Ordered(obj for obj in before.objs if not (isinstance(obj, Const) and obj.value is None))
        holder.attributes[name] = replace(before, objs=rest)


def _is_certain(machine: Machine, holder: Obj, node: cst.CSTNode, none: str = "") -> bool:
    """Whether the line comes whenever the object is made; `none`: or whenever that attribute of it is None."""
    made = machine.made_at.get(holder)
    before = list(made.up()) if made is not None else []
    decided = {_arm(here) for here in before}
    entered = {id(here.frame.returned) for here in before}
    if not _is_sure(machine.frame.module, node) or any(one not in before for one in machine.choosing):
        return False
    return all(
        (
            _arm(here) in decided
            or here.is_decided
            or not here.arm
            or isinstance(here.node, _CERTAIN)
            or _is_if_none(here, holder, none)
        )
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


def _is_if_none(here: Here, holder: Obj, name: str) -> bool:
    """The arm of `if self.model is None:` and `if not self.model:`."""
    if not name or here.arm != "body" or not isinstance(here.node, cst.If):
        return False
    test = here.node.test
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        only = test.comparisons[0]
        asks = (
            isinstance(only.operator, (cst.Is, cst.Equal))
            and isinstance(only.comparator, cst.Name)
            and only.comparator.value == "None"
        )
        asked: cst.BaseExpression | None = test.left if asks else None
    else:
        negated = isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not)
        asked = test.expression if isinstance(test, cst.UnaryOperation) and negated else None
    if not isinstance(asked, cst.Attribute) or asked.attr.value != name or not isinstance(asked.value, cst.Name):
        return False
    return here.frame.env.get(asked.value.value, NOTHING).single() is holder
