"""What operators do: arithmetic, and what is chosen or compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.interpreter import expressions, scales, targets
from distify_codemods.values import NOTHING, Const, Obj, Sequence, Setting, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def binary(machine: Machine, node: cst.BinaryOperation) -> Value:
    left, right = expressions.evaluate(machine, node.left), expressions.evaluate(machine, node.right)
    value = scales.binary(type(node.operator).__name__, left, right)
    lists = [obj for obj in (*left.objs, *right.objs) if isinstance(obj, Sequence)]
    if lists:
        both = machine.made(Sequence, node)
        assert isinstance(both, Sequence)
        both.element = join(both.element or NOTHING, *(targets.any_item(Value(frozenset({obj}))) for obj in lists))
        return Value(frozenset({both}), value.scale, value.sources)
    settings = frozenset(obj for obj in (*left.objs, *right.objs) if _may_be_a_size(obj))
    return Value(frozenset(), value.scale, value.sources | settings)


def _may_be_a_size(obj: Obj) -> bool:
    return isinstance(obj, Setting) or (isinstance(obj, Const) and isinstance(obj.value, int) and obj.value > 1)


def unary(machine: Machine, node: cst.UnaryOperation) -> Value:
    value = expressions.evaluate(machine, node.expression)
    known = value.constant()
    if isinstance(node.operator, cst.Not):
        return (
            expressions.literal(machine, node, not known) if isinstance(known, bool) else Value(sources=value.sources)
        )
    if isinstance(node.operator, cst.Minus) and isinstance(known, (int, float)) and not isinstance(known, bool):
        return expressions.literal(machine, node, -known)
    return Value(scale=value.scale, sources=value.sources, mask=value.mask, deep=value.deep)


def boolean(machine: Machine, node: cst.BooleanOperation) -> Value:
    left, right = expressions.evaluate(machine, node.left), expressions.evaluate(machine, node.right)
    for one, other in ((left, right), (right, left)):
        known = one.constant()
        if isinstance(known, bool):
            decides = known is isinstance(node.operator, cst.Or)
            return one if decides else other
    return join(left, right)


def comparison(machine: Machine, node: cst.Comparison) -> Value:
    values = [expressions.evaluate(machine, node.left)]
    values += [expressions.evaluate(machine, target.comparator) for target in node.comparisons]
    if len(values) == 2 and isinstance(node.comparisons[0].operator, (cst.Equal, cst.NotEqual)):
        left, right = (value.constant() for value in values)
        if isinstance(left, str) and isinstance(right, str):
            return expressions.literal(
                machine, node, (left == right) is isinstance(node.comparisons[0].operator, cst.Equal)
            )
    result = values[0]
    for value in values[1:]:
        result = scales.compared(result, value)
    return result


def conditional(machine: Machine, node: cst.IfExp) -> Value:
    test = expressions.evaluate(machine, node.test)
    value = join(expressions.evaluate(machine, node.body), expressions.evaluate(machine, node.orelse))
    return Value(value.objs, value.scale, value.sources | test.sources, value.mask, value.deep)
