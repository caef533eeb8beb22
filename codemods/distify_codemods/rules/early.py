"""What may be computed above its statement: nothing that the script computes only where a test has let it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.facts import Facts
from distify_codemods.libraries import python
from distify_codemods.program import Module

#: Methods that only tell what a figure is.
TELLING = frozenset("item float detach cpu size mean sum double all any".split())
_FOR_ANY_NUMBERS = (cst.Add, cst.Subtract, cst.Multiply)


def may_be_early(
    facts: Facts, module: Module, node: cst.BaseExpression, passed: Collection[cst.If], known: Collection[cst.CSTNode]
) -> bool:
    """Whether a figure can be computed above the first statement of its group.

    passed: the statements before its own that may leave; known: figures that are computed there in any case.
    """
    statement = module.statement(node)
    if tree.is_elif(module.parents, statement):
        return False  # an `elif`: above it there is another arm
    letting = dict(_letting(module, node, statement))
    if any(isinstance(one, (cst.BaseComp, cst.Lambda)) for one in letting):
        return False  # what it names may be known in there alone
    tests = [*(test for found in letting.values() for test in found), *(one.test for one in passed)]
    if not tests:
        return True
    asked = {name for test in tests for name in tree.names(test)} - {name for one in known for name in tree.names(one)}
    first = next(iter(passed), statement)
    return asked.isdisjoint(tree.names(node)) and _never_fails(facts, module, node, first)


def _letting(
    module: Module, node: cst.CSTNode, statement: cst.CSTNode
) -> Iterator[tuple[cst.CSTNode, list[cst.BaseExpression]]]:
    """What may leave out a node of its statement, and what it asks: `mean is not None` before `and 1.25 * mean < x`."""
    inner = node
    for outer in module.enclosing(node):
        if inner is statement:
            return
        if isinstance(outer, cst.BooleanOperation) and inner is outer.right:
            yield outer, [outer.left]
        elif isinstance(outer, cst.IfExp) and inner is not outer.test:
            yield outer, [outer.test]
        elif isinstance(outer, cst.Comparison):  # `0 < seen < hits / seen`
            later = outer.comparisons.index(inner) if isinstance(inner, cst.ComparisonTarget) else 0
            if later:
                yield outer, [outer.left, *(one.comparator for one in outer.comparisons[:later])]
        elif isinstance(outer, cst.Assert) and inner is outer.msg:
            yield outer, [outer.test]
        elif isinstance(outer, (cst.BaseComp, cst.Lambda)):
            yield outer, []
        inner = outer


def _never_fails(facts: Facts, module: Module, node: cst.BaseExpression, first: cst.CSTNode) -> bool:
    """Whether it is made of numbers and tensors that are there by then, by what fails for none of them."""
    if isinstance(node, (cst.Integer, cst.Float)):
        return True
    if isinstance(node, cst.Name):
        return not facts.value(node).may_be_none and not module.flow(first).may_be_unbound(first, node.value)
    if isinstance(node, cst.UnaryOperation):
        return _never_fails(facts, module, node.expression, first)
    if isinstance(node, cst.BinaryOperation):
        parts = (node.left, node.right)
        fails = not isinstance(node.operator, _FOR_ANY_NUMBERS) and not _is_divided_by_a_number(node)
        return not fails and all(_never_fails(facts, module, part, first) for part in parts)
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute):
            tells = node.func.attr.value in TELLING and not node.args
            return tells and _never_fails(facts, module, node.func.value, first)
        names = {str(getattr(obj, "name", "")) for obj in facts.value(node.func).objs}
        known = bool(names) and names <= python.OF_A_NUMBER
        return known and all(_never_fails(facts, module, one.value, first) for one in node.args)
    return False


def _is_divided_by_a_number(node: cst.BinaryOperation) -> bool:
    number = node.right.evaluated_value if isinstance(node.right, (cst.Integer, cst.Float)) else 0
    return isinstance(node.operator, cst.Divide) and number != 0
