"""SAVE01: rank 0 alone writes checkpoints, with the keys that they had."""

from __future__ import annotations

from distify_codemods.rules.base import Context, Rule

CODE = "SAVE01"


def run(context: Context) -> None:
    saves = context.facts.calls("torch.save")
    for event in saves:
        if not context.editable(event.module, event.node, "a checkpoint is written"):
            continue
        if context.on_main(event, "one writer"):
            context.applied("rank 0 writes the checkpoint", event.module, event.node)
        else:
            context.needs_you(
                "a checkpoint is written inside another expression", event.module, event.node,
                "give it a statement of its own",
            )  # fmt: skip
    if not saves:
        context.not_needed("no checkpoint is written")


RULE = Rule(
    code=CODE,
    name="checkpoints",
    why="Processes that write one file at once corrupt it.",
    safety="Each `torch.save` that is a statement of its own goes under `if rt.is_main_process():`.",
    run=run,
    pitfalls=(10, 48),
)
