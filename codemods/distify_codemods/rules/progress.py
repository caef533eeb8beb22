"""OUT02: one rank draws progress bars."""

from __future__ import annotations

import libcst as cst

from distify_codemods.interpreter.library import PROGRESS_BARS
from distify_codemods.rules.base import Context, Rule

CODE = "OUT02"


def run(context: Context) -> None:
    found = [event for event in context.facts.calls(*PROGRESS_BARS) if event.name.startswith("tqdm.")]
    for event in found:
        node, module = event.node, event.module
        assert isinstance(node, cst.Call)
        if not context.editable(module, node, "a progress bar is drawn"):
            continue
        rt = context.rt(module)

        def disabled(updated: cst.BaseExpression, rt: str = rt, module: object = module) -> cst.BaseExpression:
            other = cst.parse_expression(f"not {rt}.is_main_process()")
            return cst.BooleanOperation(updated, cst.Or(), other)

        present = event.arguments.get("disable")
        plan = context.plan(module)
        reason = "one rank draws"
        if present is None or present.constant() is False:
            plan.set_keyword(node, "disable", f"not {rt}.is_main_process()", CODE, reason)
        else:
            plan.set_keyword(node, "disable", disabled, CODE, reason)
        context.applied("rank 0 draws the progress bar", module, node)
    for event in context.facts.calls("tqdm.tqdm.write", "tqdm.auto.tqdm.write"):
        context.on_main(event, "one rank writes to the screen")
    if not found:
        context.not_needed("no progress bars")


RULE = Rule(
    code=CODE,
    name="progress bars",
    why="N ranks draw N bars over each other.",
    safety="`disable=` of tqdm is set on all ranks but the first; a `disable` of the script's own still counts.",
    run=run,
    pitfalls=(16,),
)
