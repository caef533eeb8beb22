"""How many samples a batch has that is cut by hand: the literals and settings by which its bounds say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.libraries import python
from distify_codemods.objects import Setting
from distify_codemods.ordered import EMPTY, InOrder, Ordered
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def size_objs(value: Value) -> Ordered[Obj]:
    """The literals and settings that a size is."""
    return _sizes_in(value.objs)


def _sizes_in(objs: InOrder[Obj | str]) -> Ordered[Obj]:
    return Ordered(
        obj for obj in objs
        if isinstance(obj, Setting)
        or (isinstance(obj, Const) and isinstance(obj.value, int) and not isinstance(obj.value, bool) and obj.value > 1)
    )  # fmt: skip


def told_by(machine: Machine, rows: cst.Slice) -> Ordered[Obj]:
    """The literals and settings that say how many there are: `i : i + size`, `i * size : (i + 1) * size`."""
    if rows.lower is None or rows.upper is None:
        return size_objs(machine.values.get(rows.upper, NOTHING)) if rows.upper is not None else EMPTY
    ends = _least_of(machine, rows.upper)
    step = next((one for end in ends if (one := _between(rows.lower, end)) is not None), None)
    if step is not None:
        return size_objs(machine.values.get(step, NOTHING))
    bounds = [machine.values.get(one, NOTHING) for one in (rows.lower, rows.upper)]
    told = EMPTY.union(*(size_objs(bound) | _sizes_in(bound.sources) for bound in bounds))
    return told if len(told) == 1 else EMPTY  # of several, some say where the rows begin


def _least_of(machine: Machine, end: cst.BaseExpression) -> list[cst.BaseExpression]:
    """`min(i + size, len(data))`: what each end may be."""
    called = machine.values.get(end.func, NOTHING).single() if isinstance(end, cst.Call) else None
    least = isinstance(called, Ref) and called.name == python.LEAST
    return [one.value for one in end.args if not one.star] if least and isinstance(end, cst.Call) else [end]


def _between(lower: cst.BaseExpression, upper: cst.BaseExpression) -> cst.BaseExpression | None:
    """What is added to the one to get to the other, where that is written."""
    if (added := _rest(upper, cst.Add, lower)) is not None:
        return added
    if not isinstance(lower, cst.BinaryOperation) or not isinstance(lower.operator, cst.Multiply):
        return None
    for number, size in ((lower.left, lower.right), (lower.right, lower.left)):
        following = _rest(upper, cst.Multiply, size)
        one = _rest(following, cst.Add, number) if following is not None else None
        if isinstance(one, cst.Integer) and one.evaluated_value == 1:
            return size
    return None


def _rest(
    whole: cst.BaseExpression, operator: type[cst.BaseBinaryOp], part: cst.BaseExpression
) -> cst.BaseExpression | None:
    """What of `a + b` is left without `a`, or without `b`."""
    if isinstance(whole, cst.BinaryOperation) and isinstance(whole.operator, operator):
        for one, other in ((whole.left, whole.right), (whole.right, whole.left)):
            if _written(one) == _written(part):
                return other
    return None


def _written(node: cst.BaseExpression) -> str:
    return tree.code_of(node.with_changes(lpar=(), rpar=()))
