"""MODEL02: BatchNorm sees the global batch, as it did before."""

from __future__ import annotations

from distify_codemods.decisions.base import Broadcast, Wrap
from distify_codemods.events import Kind
from distify_codemods.libraries.torch_nn import BATCHNORMS
from distify_codemods.objects import Instance
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example, LeftAlone

CODE = "MODEL02"


def run(context: Context) -> None:
    if context.options.per_rank_batch:
        _keep_local(context)
        return
    found = False
    for wrap in context.decisions.wraps:
        if wrap.sync_batchnorm:
            found = True
            _synchronise(context, wrap, context.backend.sync_batchnorm(wrap.target, context.rt(wrap.module)))
    context.tell_blocked()
    for one in (*context.decisions.broadcasts, *context.decisions.bystanders):
        if one.sync_batchnorm and context.editable(one.module, one.statement, "a model with BatchNorm is built here"):
            found = True
            _synchronise(context, one, context.backend.sync_batchnorm_in_place(one.target, context.rt(one.module)))
    _own_layers(context)
    if not found:
        context.not_needed_if_known("no BatchNorm layers")


def _synchronise(context: Context, one: Wrap | Broadcast, text: str) -> None:
    plan, reason = context.plan(one.module), "BatchNorm's statistics see the global batch, as before"
    plan.insert(one.statement, text, CODE, reason, 9, after=one.after)
    context.applied(f"BatchNorm layers of `{one.target}`, if any, see the global batch", one.module, one.statement)


def _keep_local(context: Context) -> None:
    """Each rank normalises as many samples as one process did; what it keeps for later is shared."""
    built = [one for one in context.decisions.built if one.sync_batchnorm]
    for one in built:
        rt, plan = context.rt(one.module), context.plan(one.module)
        text = context.backend.average_running_statistics(one.target, rt)
        reason = "evaluations and checkpoints see the running statistics of all ranks"
        plan.insert(one.statement, text, CODE, reason, 11, after=one.after)
        context.applied(
            f"BatchNorm layers of `{one.target}`, if any, see as many samples as before; the ranks average what they "
            "keep for evaluation", one.module, one.statement,
        )  # fmt: skip
    if not built:
        context.not_needed_if_known("no BatchNorm layers")


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
    shared="a shared forward pass synchronises BatchNorm by itself",
    pitfalls=(21, 27),
    examples=(
        Example(
            model="""
              model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
            + model = rt.convert_sync_batchnorm(model)
            """
        ),
        LeftAlone(model="model = nn.Sequential(nn.Linear(4, 8), nn.GroupNorm(2, 8), nn.Linear(8, 1))"),
    ),
)
