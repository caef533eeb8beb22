"""MODEL01: each trained model in DistributedDataParallel, as late as it can be."""

from __future__ import annotations

import libcst as cst

from distify_codemods.events import Event, Kind
from distify_codemods.facts import loaders_of, wrapped
from distify_codemods.rules.base import Context, Rule
from distify_codemods.tree import walk
from distify_codemods.values import Value

CODE = "MODEL01"
#: Attributes of a module that read or set nothing that a wrap would hide.
TRANSPARENT = frozenset(
    [
        "train",
        "eval",
        "parameters",
        "zero_grad",
        "requires_grad_",
        "to",
        "cuda",
        "cpu",
        "float",
        "double",
        "half",
        "bfloat16",
        "training",
        "module",
    ]
)


def run(context: Context) -> None:
    for blocked in context.decisions.blocked:
        if blocked.code == CODE and context.facts.training_loops:
            context.blocked(blocked)
    for wrap in context.decisions.wraps:
        module = wrap.module
        if not context.editable(module, wrap.statement, "the trained model is built here"):
            continue
        rt, plan = context.rt(module), context.plan(module)
        text = context.backend.wrap(wrap.target, context.wrapper(module), rt)
        insert = plan.insert_after if wrap.after else plan.insert_before
        insert(wrap.statement, text, CODE, f"gradients are averaged over the ranks; {wrap.why}", 10)
        context.applied(f"`{wrap.target}` is trained by all ranks together", module, wrap.statement)
    _other_ways(context)
    _accumulation(context)


def _accumulation(context: Context) -> None:
    """Where the optimizer steps on some batches only, gradients need to be averaged on those alone."""
    for loop in context.facts.training_loops:
        for step in context.facts.steps:
            sometimes = any(
                isinstance(here.node, cst.If) and any(isinstance(node, cst.Modulo) for node in walk(here.node.test))
                for here in step.here.up()
                if here.frame is loop.event.here.frame
            )
            if sometimes and step.inside(loop.event):
                context.advice(
                    "gradients are averaged after each backward pass, which is right; under `model.no_sync()` for all but the "
                    "last before a step it would be faster", step.module, step.node,
                )  # fmt: skip
                return


def _other_ways(context: Context) -> None:
    """Training through anything but the model's own forward is not seen by DistributedDataParallel."""
    loops = [loop.event for loop in context.facts.training_loops]
    for event in context.facts.of_kind(Kind.METHOD, Kind.FORWARD, Kind.CALL):
        if not event.grad or not any(event.inside(loop) for loop in loops):
            continue
        node = event.node
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            _past_the_wrap(context, event, node, node.func)
    for event in context.facts.calls("torch.autograd.grad"):
        context.needs_you(
            "gradients are taken by `torch.autograd.grad`, past DistributedDataParallel", event.module, event.node,
            "average these gradients over the ranks by hand",
        )  # fmt: skip


def _past_the_wrap(context: Context, event: Event, node: cst.Call, function: cst.Attribute) -> None:
    name = function.attr.value
    if not wrapped(context.facts.value(function.value)) or name in TRANSPARENT:
        return
    result: Value = context.facts.value(node)
    if event.kind is Kind.FORWARD or loaders_of(result.sources):
        context.needs_you(
            f"the model is trained through `.{name}(...)`; DistributedDataParallel only averages gradients of its forward",
            event.module, node, f"call it through the model's forward, e.g. model(x, mode={name!r})",
        )  # fmt: skip


RULE = Rule(
    code=CODE,
    name="gradient averaging",
    why="Without it each rank trains a model of its own; wrapped too early, weights set after the wrap differ between the ranks.",
    safety="A model is whatever an optimizer was given the parameters of. It is wrapped after the last thing that is done to it "
    "before the first training step (moved, initialised, loaded, frozen). The wrap is tried out on the program: every "
    "training forward must go through it.",
    run=run,
    limits="Models whose forward leaves parameters unused stop with torch's own error; pass find_unused_parameters=True there.",
    pitfalls=(24, 25, 26, 29, 44),
)
