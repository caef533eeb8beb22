"""nn.DataParallel written out: a model that is copied onto the GPUs of one process, by hand or by a function."""

from __future__ import annotations

import libcst as cst

from distify_codemods.arguments import bound
from distify_codemods.events import Event, Here
from distify_codemods.libraries.parallel import FUNCTIONAL, REPLICATES
from distify_codemods.rules.base import Context
from distify_codemods.rules.gpu_counts import conjuncts, goes_by

_REASON = "a rank has one GPU, and calls the model itself"


def run(context: Context) -> bool:
    """Whether there are such models."""
    functional = context.facts.calls(*FUNCTIONAL)
    for event in functional:
        _call_itself(context, event)
    by_hand = context.facts.calls(*REPLICATES)
    for event in by_hand:
        way = next((here for here in event.here.up() if _leads_elsewhere(context, here)), None)
        if way is None:
            context.needs_you(
                "the model is copied onto several GPUs of one process by hand, past what averages gradients over ranks",
                event.module, event.node, "call the model itself: each rank has one GPU",
            )  # fmt: skip
            continue
        context.applied("each rank has one GPU, and does without copies of the model", way.frame.module, way.node)
    return bool(functional or by_hand)


def _call_itself(context: Context, event: Event) -> None:
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
        context.plan(module).replace(node, _itself, context.code, _REASON)
        context.applied("each rank has one GPU, and calls the model itself", module, node)


def _itself(updated: cst.BaseExpression) -> cst.BaseExpression:
    assert isinstance(updated, cst.Call)
    given = bound(updated, ("module", "inputs"))
    inputs = given["inputs"].value
    values = [one.value for one in inputs.elements] if isinstance(inputs, cst.Tuple) else [inputs]
    return cst.Call(given["module"].value, [cst.Arg(value) for value in values])


def _leads_elsewhere(context: Context, here: Here) -> bool:
    """Whether a process with one GPU takes the other arm of a test of their number, as each rank does."""
    if not isinstance(here.node, cst.If) or here.arm not in ("body", "orelse"):
        return False
    tests = conjuncts(here.node.test) if here.arm == "body" else [here.node.test]
    decided = [goes_by(context, test) for test in tests if isinstance(test, cst.Comparison)]
    return any(way is not None and way[1] is (here.arm == "orelse") for way in decided)
