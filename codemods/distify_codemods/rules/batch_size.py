"""BATCH01: where the batch size also shapes tensors, it is divided where it is defined."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.base import Division
from distify_codemods.rules.base import Context, Rule, call_of

CODE = "BATCH01"


def run(context: Context) -> None:
    for blocked in context.decisions.blocked:
        if blocked.code == CODE:
            context.blocked(blocked)
    for division in context.decisions.divisions:
        _divide(context, division)
    if not context.decisions.divisions:
        context.not_needed("the batch size is used by the loaders alone")


def _divide(context: Context, division: Division) -> None:
    module = division.module
    if not context.editable(module, division.node, "the batch size is defined here"):
        return
    rt, plan = context.rt(module), context.plan(module)
    reason = f"it also shapes tensors (line {division.used}), whose first dimension is the rank's share"
    if isinstance(division.node, cst.BaseExpression):
        plan.replace(division.node, call_of(f"{rt}.per_rank_batch_size({{}})"), CODE, reason)
    else:
        text = f"{division.setting} = {rt}.per_rank_batch_size({division.setting})"
        plan.insert_after(division.node, text, CODE, reason, -20)
    context.applied("the batch size is each rank's share from its definition on", module, division.node)


RULE = Rule(
    code=CODE,
    name="batch size",
    why="Tensors that are sized by the batch size (labels, noise, hidden states) no longer fit a rank's share "
    "of the batch.",
    safety="When a training loader's batch size also sizes tensors in the training loop, it is divided where it "
    "is defined.",
    run=run,
    pitfalls=(3,),
)
