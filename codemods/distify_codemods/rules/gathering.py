"""GATHER01: a loss that relates the samples of a batch to each other sees the whole batch on every rank."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Joining, Layout, Sharding
from distify_codemods.rules.base import Context, Rule, call_of, times
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.training_data import repeats_in

CODE = "GATHER01"
_WHY = "the loss relates samples to each other: all ranks need all of them"
_NUMBER = "the number of all ranks' samples"


def run(context: Context) -> None:
    for joining in context.decisions.joinings:
        if context.editable(joining.module, joining.statement, "the samples of a batch are related to each other"):
            _join(context, joining)
    if not context.decisions.joinings:
        context.not_needed("no loss relates the samples of a batch to each other")


def _join(context: Context, joining: Joining) -> None:
    module, plan = joining.module, context.plan(joining.module)
    rt, statement = context.rt(module), joining.statement
    for found, insert in ((joining.before, plan.insert_before), (joining.after, plan.insert_after)):
        layouts = dict.fromkeys(layout for _, layout in found)
        for layout in sorted(layouts, key=lambda one: not one.samples):  # the number of samples is still a rank's
            names = ", ".join(name for name, its in found if its == layout)
            options = _options(context, joining, layout)
            insert(statement, f"{names} = {rt}.gather_samples({names}{options})", CODE, _WHY)
    for node, layout in joining.values:
        call = f"{rt}.gather_samples({{}}{_options(context, joining, layout)})"
        plan.replace(node, call_of(call), CODE, _WHY)
    scaled = plan.insert_before if joining.values else plan.insert_after
    for name in joining.numbers:
        scaled(statement, f"{name} = {name} * {rt}.world_size()", CODE, _NUMBER)
    for node in joining.counts:
        plan.replace(node, times(module, node, f"{rt}.world_size()"), CODE, _NUMBER)
    what = "what the models return is gathered: all ranks compute the loss of the whole batch"
    context.applied(what, module, statement)
    _tell_of_copies(context, joining)
    if joining.unseen:
        context.advice(
            "what this loss does with the samples cannot be seen, so it is computed on the whole batch by every rank: "
            "right, but what the models return is sent around in each step",
            module, statement,
        )  # fmt: skip


def _tell_of_copies(context: Context, joining: Joining) -> None:
    """Batches of a batch size may only end with one that does not divide; those of a batch sampler may each be such."""
    if not any(one.sharding is Sharding.TRAINING for one in context.decisions.loaders):
        return
    which = repeats_in(context)
    never = "with `drop_last=True`" if which == "the last batch" else "where each batch divides"
    if which:
        context.advice(
            f"where {which} does not divide by the ranks, some of its samples stand in it twice: a loss that relates "
            f"samples to each other sees copies, as in no batch of one process; {never} none",
            joining.module, joining.statement,
        )  # fmt: skip


def _options(context: Context, joining: Joining, layout: Layout) -> str:
    options = f", dim={layout.dimension}" if layout.dimension else ""
    if isinstance(layout.views, cst.Call):
        options += f", views={_counted(context, joining, layout.views)}"
    elif layout.views != 1:
        options += f", views={layout.views}"
    if layout.samples:
        options += f", samples={layout.samples}" + (", by_step=True" if layout.by_step else "")
    return options + (", parts=True" if joining.parts else "")


def _counted(context: Context, joining: Joining, joined: cst.Call) -> str:
    """A name for the number of tensors that are joined, which it gets before they are."""
    module, name = joining.module, context.fresh(joining.module, "views")
    parts = tree.code_of(joined.args[0].value)
    statement = module.statement(joined)
    context.plan(module).insert_before(statement, f"{name} = len({parts})", CODE, "so many blocks of samples")
    return name


RULE = Rule(
    code=CODE,
    name="whole batches for coupled losses",
    why="A contrastive loss, hard mining or a batch matrix on one rank's share is another loss, and nothing says so.",
    safety="After the last forward pass of a step, what the models return and whatever else of the batch is used "
    "there are gathered over the ranks, with gradients; the rest of the step stays as it is written. Tried out on the "
    "program: then no loss may depend on one rank's share other than as a mean, and nothing may meet both.",
    run=run,
    shared="every rank computes the loss on the whole batch",
    limits="Samples that a rank has beyond the batch (a last batch that does not divide) are compared, too (advice).",
    pitfalls=(49,),
    examples=(
        Example(
            data="data = TensorDataset(torch.randn(64, 4), torch.randn(64, 3))",
            model="model = nn.Linear(4, 3)",
            loss="""
              z = model(x)
            - loss = nn.functional.cross_entropy(z @ y.T, torch.arange(len(x)))
            + y, z = rt.gather_samples(y, z)
            + loss = nn.functional.cross_entropy(z @ y.T, torch.arange(len(x) * rt.world_size()))
            """,
        ),
        LeftAlone(
            data="data = TensorDataset(torch.randn(64, 4), torch.randn(64, 3))",
            model="model = nn.Linear(4, 3)",
            loss="z = model(x)\nloss = nn.functional.mse_loss(z, y)",
        ),
    ),
)
