"""LOAD01: every rank reads a checkpoint, onto its own device."""

from __future__ import annotations

import libcst as cst

from distify_codemods.arguments import PARAMETERS, bound
from distify_codemods.rules.base import Context, Rule

CODE = "LOAD01"


def run(context: Context) -> None:
    loads = context.facts.calls("torch.load")
    saves = context.facts.calls("torch.save")
    for event in loads:
        node, module = event.node, event.module
        assert isinstance(node, cst.Call)
        if not context.editable(module, node, "a checkpoint is read"):
            continue
        rt, plan = context.rt(module), context.plan(module)
        given = bound(node, PARAMETERS["load"]).get("map_location")
        if event.arguments.double_star is not None:
            if "map_location" not in event.arguments.expanded():
                context.advice(
                    "`**kwargs` may set `map_location`; the checkpoint goes where it was saved from", module, node
                )
        elif given is None or isinstance(given.value, cst.Dict) or _is_none(given.value):
            plan.set_keyword(
                node,
                "map_location",
                f"{rt}.map_location",
                CODE,
                "each rank reads onto its own GPU, not all onto the first",
            )
        if any(save.before(event) for save in saves):
            plan.insert_before(
                context.above_file_tests(event) or module.statement(node),
                f"{rt}.barrier()",
                CODE,
                "rank 0 has written the file before it is read",
            )
        context.applied("each rank reads the checkpoint onto its own device", module, node)
    if not loads:
        context.not_needed("no checkpoint is read")


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


RULE = Rule(
    code=CODE,
    name="reading checkpoints",
    why="A checkpoint remembers its GPU: without `map_location` every rank reads it onto the first one.",
    safety="Set where `torch.load` has none, or a table of devices. A file that the run itself wrote is waited for.",
    run=run,
    pitfalls=(12, 45),
)
