"""nn.DataParallel written out: a model that is copied onto the GPUs of one process, by hand or by a function."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.arguments import bound
from distify_codemods.events import Event, Here
from distify_codemods.libraries.parallel import COUNT, FUNCTIONAL, REPLICATES
from distify_codemods.rules.base import Context, call_of

_REASON = "a rank has one GPU, and calls the model itself"
_HOLDS = {
    cst.GreaterThan: int.__gt__,
    cst.GreaterThanEqual: int.__ge__,
    cst.LessThan: int.__lt__,
    cst.LessThanEqual: int.__le__,
    cst.Equal: int.__eq__,
    cst.NotEqual: int.__ne__,
}


def run(context: Context, code: str) -> bool:
    """Whether there are such models."""
    functional = context.facts.calls(*FUNCTIONAL)
    for event in functional:
        _call_itself(context, event, code)
    by_hand = context.facts.calls(*REPLICATES)
    for event in by_hand:
        way = next((way for here in event.here.up() if (way := _count_that_leads(context, event, here))), None)
        if way is None:
            context.needs_you(
                "the model is copied onto several GPUs of one process by hand, past what averages gradients over ranks",
                event.module, event.node, "call the model itself: each rank has one GPU",
            )  # fmt: skip
            continue
        here, count = way
        module = here.frame.module
        if context.editable(module, count, "the model is copied onto several GPUs"):
            context.plan(module).replace(count, call_of("min({}, 1)"), code, _REASON)
            context.applied("each rank has one GPU, and does without copies of the model", module, count)
    return bool(functional or by_hand)


def _call_itself(context: Context, event: Event, code: str) -> None:
    """`data_parallel(model, x)` is `model(x)`."""
    node, module = event.node, event.module
    given = bound(node, ("module", "inputs")) if isinstance(node, cst.Call) else {}
    inputs = given["inputs"].value if "inputs" in given else None
    items = context.facts.value(inputs).objs if inputs is not None else frozenset()
    unseen = inputs is None or (items and not isinstance(inputs, cst.Tuple))
    if "module" not in given or unseen or event.arguments.get("module_kwargs", 5) is not None:
        context.needs_you("the model is called on several GPUs", module, node, "call the model itself")
    elif context.editable(module, node, "the model is called on several GPUs"):
        assert isinstance(node, cst.Call)
        context.plan(module).replace(node, _itself, code, _REASON)
        context.applied("each rank has one GPU, and calls the model itself", module, node)


def _itself(updated: cst.BaseExpression) -> cst.BaseExpression:
    assert isinstance(updated, cst.Call)
    given = bound(updated, ("module", "inputs"))
    inputs = given["inputs"].value
    values = [one.value for one in inputs.elements] if isinstance(inputs, cst.Tuple) else [inputs]
    return cst.Call(given["module"].value, [cst.Arg(value) for value in values])


def _count_that_leads(context: Context, event: Event, here: Here) -> tuple[Here, cst.BaseExpression] | None:
    """The number of GPUs in a test by which a process with one of them takes the other way."""
    if not isinstance(here.node, cst.If) or here.arm not in ("body", "orelse"):
        return None
    counts = _counts(context)
    for test in _conjuncts(here.node.test) if here.arm == "body" else [here.node.test]:
        if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
            continue
        operator, right = type(test.comparisons[0].operator), test.comparisons[0].comparator
        holds = _HOLDS.get(operator)
        for count, limit, turned in ((test.left, right, False), (right, test.left, True)):
            number = tree.integer(limit)
            if holds is None or number is None or not _is_count(context, count, counts):
                continue
            if (holds(number, 1) if turned else holds(1, number)) is (here.arm == "orelse"):
                return here, count
    return None


def _conjuncts(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return [*_conjuncts(test.left), *_conjuncts(test.right)]
    return [test]


def _counts(context: Context) -> set[str]:
    """The names that the number of GPUs is given."""
    parents = ((event.module.parents.get(event.node)) for event in context.facts.calls(COUNT))
    assigns = (parent for parent in parents if isinstance(parent, cst.Assign))
    return {tree.code_of(target.target) for assign in assigns for target in assign.targets}


def _is_count(context: Context, node: cst.BaseExpression, counts: set[str]) -> bool:
    asked = any(event.node is node for event in context.facts.calls(COUNT))
    return asked or (tree.is_plain(node) and tree.code_of(node) in counts)
