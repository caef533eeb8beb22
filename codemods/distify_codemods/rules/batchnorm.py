"""MODEL02: BatchNorm sees the global batch, as it did before."""

from __future__ import annotations

from distify_codemods.rules.base import Context, Rule

CODE = "MODEL02"


def run(context: Context) -> None:
    found = False
    for wrap in context.decisions.wraps:
        if wrap.sync_batchnorm and wrap.module is context.entry:
            found = True
            rt, plan = context.rt(wrap.module), context.plan(wrap.module)
            text = context.backend.sync_batchnorm(wrap.target, rt)
            reason = "BatchNorm's statistics see the global batch, as before"
            (plan.insert_after if wrap.after else plan.insert_before)(wrap.statement, text, CODE, reason, 9)
            context.applied(
                f"BatchNorm layers of `{wrap.target}`, if any, see the global batch", wrap.module, wrap.statement
            )
    if not found:
        context.not_needed("no BatchNorm layers")


RULE = Rule(
    code=CODE,
    name="BatchNorm",
    why="Statistics of a rank's share of the batch differ from those of the whole: another result than on one GPU.",
    safety="The global batch is kept, so BatchNorm is synchronised wherever the script or a library may have put it. "
    "Models without it are left as they are. Checkpoints keep their keys and classes.",
    run=run,
    pitfalls=(21,),
)
