"""The dataset of a loader as an expression that can be written twice."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import LoaderDecision, Sharding
from distify_codemods.objects import Mapping
from distify_codemods.plan import Rewrite
from distify_codemods.rules.base import Context, call_of


def dataset_expression(context: Context, decision: LoaderDecision, bound: dict[str, cst.Arg]) -> str | None:
    """Its text. What is computed in place gets a name of its own, one line above."""
    argument = bound.get("dataset")
    if argument is None:
        context.needs_you(
            "the dataset of this loader is given in `**kwargs`",
            decision.module,
            decision.node,
            "name it: DataLoader(dataset, ...)",
        )
        return None
    node = argument.value
    if tree.is_plain(node):
        return tree.code_of(node)
    if not _can_stand_above(decision):
        context.needs_you(
            "the dataset of this loader is computed in place, where it cannot get a name of its own",
            decision.module, node, "make the dataset in a line above",
        )  # fmt: skip
        return None
    module = decision.module
    purpose = "training" if decision.sharding is Sharding.TRAINING else "evaluation"
    name = context.fresh(module, f"{'loaded' if decision.when else purpose}_dataset")
    plan = context.plan(module)
    statement: cst.CSTNode = module.statement(decision.node)
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) > 1:  # it may be of what stands before it
        statement = next(one for one in module.enclosing(decision.node) if one in statement.body)
    plan.hoist(statement, node, name, context.code, "the sampler needs the dataset too")
    return name


def can_be_named(decision: LoaderDecision, dataset: cst.BaseExpression) -> bool:
    """Whether the expression can be written twice, or be given a name in a line above."""
    return tree.is_plain(dataset) or _can_stand_above(decision)


def _can_stand_above(decision: LoaderDecision) -> bool:
    """Not in a comprehension, a lambda or a condition, whose names are not known one line above."""
    for node in decision.module.enclosing(decision.node):
        if isinstance(node, (cst.BaseComp, cst.Lambda, cst.IfExp, cst.BooleanOperation, cst.Decorator)):
            return False
        if isinstance(node, cst.SimpleStatementLine):
            return True
        if isinstance(node, cst.BaseCompoundStatement):
            return False
    return False


def through_runtime(context: Context, decision: LoaderDecision, function: str, reason: str) -> None:
    """`DataLoader(arguments)` becomes `DataLoader(**function(arguments))`: what they are shows when it runs."""
    context.plan(decision.module).replace(decision.node, _arguments_through(function), context.code, reason)


def _arguments_through(function: str) -> Rewrite:
    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        assert isinstance(updated, cst.Call)
        inner = updated.with_changes(func=cst.parse_expression(function), lpar=(), rpar=())
        return updated.with_changes(args=[cst.Arg(inner, star="**")], whitespace_before_args=cst.SimpleWhitespace(""))

    return rewrite


def share_workers(context: Context, decision: LoaderDecision, bound: dict[str, cst.Arg]) -> None:
    """And ranks' shares of one batch come together: those of the first that is ready may be of several."""
    if "in_order" in bound:
        context.plan(decision.module).drop_keyword(decision.node, "in_order")
    if "num_workers" in bound and tree.integer(bound["num_workers"].value) != 0:
        rewrite = call_of(f"{context.rt(decision.module)}.per_rank_workers({{}})")
        reason = "the node's ranks share its workers"
        context.plan(decision.module).set_keyword(decision.node, "num_workers", rewrite, context.code, reason)


#: What sharding sets or takes away.
_CONCERNED = frozenset(["shuffle", "sampler", "batch_sampler", "batch_size", "drop_last", "dataset"])


def only_other_options(context: Context, starred: list[cst.Arg]) -> bool:
    """Whether `**kwargs` is known, key by key, to hold nothing that sharding is about."""
    for argument in starred:
        value = context.facts.value(argument.value)
        if not value.objs or not all(isinstance(obj, Mapping) and obj.rest is None for obj in value.objs):
            return False
        keys = {key for obj in value.objs if isinstance(obj, Mapping) for key in obj.items}
        if keys & _CONCERNED:
            return False
    return True
