"""The number of GPUs: a script's one process has all of them, a rank has one."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Kind
from distify_codemods.libraries import distributed
from distify_codemods.libraries.parallel import COUNT
from distify_codemods.objects import External
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, call_of
from distify_codemods.rules.other_scripts import not_shared

_REASON = "a rank has one GPU, however many this machine has"
_HOLDS = {
    cst.GreaterThan: int.__gt__,
    cst.GreaterThanEqual: int.__ge__,
    cst.LessThan: int.__lt__,
    cst.LessThanEqual: int.__le__,
    cst.Equal: int.__eq__,
    cst.NotEqual: int.__ne__,
}


def run(context: Context) -> bool:
    """Lets tests by which one GPU goes another way than several go that of one; whether anything was to be said."""
    if not context.facts.calls(COUNT):
        return False
    found = False
    for module in context.facts.run.frames:
        for node in module.nodes:
            if isinstance(node, cst.Comparison) and _decides(context, module, node):
                found = _of_one(context, module, node) or found
            elif isinstance(node, cst.BaseExpression) and _is_reckoned_with(context, module, node):
                found = True
                context.advice(
                    f"`{tree.code_of(node)}` is the number of GPUs of this machine, and a rank has one: what is "
                    "reckoned with it is what one process with all of them would have", module, node,
                )  # fmt: skip
    return found


def goes_by(context: Context, comparison: cst.Comparison) -> tuple[cst.BaseExpression, bool] | None:
    """The number of GPUs in a test by which one goes another way than several, and whether the test holds for one."""
    if len(comparison.comparisons) != 1:
        return None
    operator, right = type(comparison.comparisons[0].operator), comparison.comparisons[0].comparator
    holds = _HOLDS.get(operator)
    for count, limit, turned in ((comparison.left, right, False), (right, comparison.left, True)):
        number = tree.integer(limit)
        if holds is not None and number is not None and is_count(context, count):
            several = (1, 2, max(number, 1), max(number, 1) + 1)
            ways = [holds(number, gpus) if turned else holds(gpus, number) for gpus in several]
            return (count, ways[0]) if len(set(ways)) > 1 else None
    return None


def is_count(context: Context, node: cst.BaseExpression) -> bool:
    return any(isinstance(obj, External) and obj.name == COUNT for obj in context.facts.value(node).objs)


def _of_one(context: Context, module: Module, test: cst.Comparison) -> bool:
    decided = goes_by(context, test)
    if decided is None or _leaves_it_idle(module, test, decided[1]):
        return False
    count, what = decided[0], "what is done depends on the number of GPUs"
    if context.editable(module, count, what) and not_shared(context, module, count, what):
        context.plan(module).replace(count, call_of("min({}, 1)"), context.code, _REASON)
        context.applied("what goes by the number of GPUs goes by the one of the rank", module, test)
    return True


def _leaves_it_idle(module: Module, test: cst.Comparison, holds: bool) -> bool:
    """`"cuda" if count > 1 else "cpu"`: of several GPUs each rank has one, which is not to be left for the CPU."""
    holder = module.parents.get(test)
    if not isinstance(holder, (cst.If, cst.IfExp)) or holder.orelse is None:
        return False
    of_one, of_several = (holder.body, holder.orelse) if holds else (holder.orelse, holder.body)
    return "cpu" in _texts(of_one) and any(one.startswith("cuda") for one in _texts(of_several))


def _texts(node: cst.CSTNode) -> set[str]:
    strings = (one for one in tree.walk(node) if isinstance(one, cst.SimpleString))
    return {one.raw_value for one in strings}


def _decides(context: Context, module: Module, test: cst.Comparison) -> bool:
    """Whether more hangs on a test than messages, errors and nn.DataParallel, which is gone."""
    for holder in module.enclosing(test):
        if isinstance(holder, cst.Assert):
            return False
        if isinstance(holder, cst.If):
            return any(_matters(context, arm) for arm in (holder.body, holder.orelse) if arm is not None)
        if isinstance(holder, cst.IfExp):
            return not any(_wraps(context, one) for one in (holder.body, holder.orelse))
        if not isinstance(holder, (cst.BooleanOperation, cst.UnaryOperation, cst.NamedExpr)):
            return True
    return True


def _matters(context: Context, arm: cst.BaseSuite | cst.If | cst.Else) -> bool:
    if isinstance(arm, cst.If):
        return any(_matters(context, one) for one in (arm.body, arm.orelse) if one is not None)
    if isinstance(arm, cst.Else):
        return _matters(context, arm.body)
    return any(_statement_matters(context, one) for one in arm.body)


def _statement_matters(context: Context, statement: cst.CSTNode) -> bool:
    if isinstance(statement, cst.SimpleStatementLine):
        return any(_statement_matters(context, one) for one in statement.body)
    if isinstance(statement, (cst.Assign, cst.AnnAssign)):
        return statement.value is None or not _wraps(context, statement.value)
    prints = isinstance(statement, cst.Expr) and any(
        event.node is statement.value for event in context.facts.of_kind(Kind.PRINT)
    )
    return not prints and not isinstance(statement, (cst.Pass, cst.Raise))


def _wraps(context: Context, value: cst.BaseExpression) -> bool:
    return any(event.node is value for event in context.facts.calls(*distributed.AROUND))


def _is_reckoned_with(context: Context, module: Module, node: cst.BaseExpression) -> bool:
    """`batch_size * n_gpu`, unless it is for a message."""
    parent = module.parents[node]
    if not isinstance(parent, (cst.BinaryOperation, cst.AugAssign)) or not is_count(context, node):
        return False
    if isinstance(parent, cst.BinaryOperation) and isinstance(parent.left, (cst.BaseString, cst.FormattedString)):
        return False
    return not any(_is_message(context, one) for one in module.enclosing(node))


def _is_message(context: Context, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.FormattedString) or any(
        event.node is node for event in context.facts.of_kind(Kind.PRINT)
    )


def conjuncts(test: cst.BaseExpression) -> Iterator[cst.Comparison]:
    """The comparisons that all have to hold for a test to hold."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        yield from conjuncts(test.left)
        yield from conjuncts(test.right)
    elif isinstance(test, cst.Comparison):
        yield test
