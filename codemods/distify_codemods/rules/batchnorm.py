"""MODEL02: BatchNorm sees the global batch, as it did before."""

from __future__ import annotations

from distify_codemods.decisions.models import BATCHNORMS
from distify_codemods.events import Kind
from distify_codemods.rules.base import Context, Rule
from distify_codemods.values import Instance

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
    _own_layers(context)
    if not found:
        context.not_needed("no BatchNorm layers")


def _own_layers(context: Context) -> None:
    """Layers that derive from BatchNorm and compute their statistics themselves."""
    for event in context.facts.of_kind(Kind.CALL):
        made = event.value.single()
        cls = made.of if isinstance(made, Instance) else None
        if (
            cls is not None
            and cls.derives_from(*BATCHNORMS)
            and any("forward" in one.attributes for one in cls.ancestors())
        ):
            context.needs_you(
                "this layer derives from BatchNorm and has a forward of its own, whose statistics would be one rank's",
                event.module, event.node, "compute its statistics over all ranks (rt.all_reduce_sum is not "
                                          "differentiable)",
            )  # fmt: skip


RULE = Rule(
    code=CODE,
    name="BatchNorm",
    why="Statistics of a rank's share of the batch differ from those of the whole: another result than on one GPU.",
    safety="The global batch is kept, so BatchNorm is synchronised wherever the script or a library may have put it. "
    "Models without it are left as they are. Checkpoints keep their keys and classes.",
    run=run,
    pitfalls=(21,),
)
