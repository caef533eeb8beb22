"""LOSS01: gradients are averaged over ranks, so each rank's loss must be a mean."""

from __future__ import annotations

import libcst as cst

from distify_codemods.batches import dealt_by
from distify_codemods.decisions import losses
from distify_codemods.decisions.base import LossForm, LossReduction
from distify_codemods.events import Event, Kind
from distify_codemods.interpreter.state import kept_in
from distify_codemods.libraries import drawing
from distify_codemods.plan import Rewrite
from distify_codemods.rules.base import Context, Rule, call_of, given_to
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.scale import Scale
from distify_codemods.tree import code_of

CODE = "LOSS01"
_PROBLEMS = {
    Scale.COUPLED: (
        "the loss relates the samples of a batch to each other, and a rank sees only its share of them",
        "gather what the loss compares over all ranks, differentiably, before it is computed",
    ),
    Scale.WEIGHTED: (
        "the loss is a mean with weights (class weights, a mask, ignored samples) that differ from rank to rank",
        "divide by the all-reduced sum of the weights, times the world size",
    ),
    Scale.SUM: ("", ""),
}
_UNKNOWN = (
    "how this loss depends on the number of samples cannot be seen: averaged over ranks it may be another loss",
    "compute it as a mean over samples with functions of torch, in this file",
)


def run(context: Context) -> None:
    rescaled, per_rank = False, context.options.per_rank_batch
    optimizers = {optimizer.obj for optimizer in context.facts.optimizers}
    for one in context.decisions.loss_reductions:
        _reduce(context, one)
    for event in losses.propagated(context.facts):
        rescaled = _mend(context, event, per_rank) or rescaled
    for event in context.facts.steps:
        if any(obj in optimizers for obj in event.receiver.objs):
            _average_closure(context, event)
    for event in context.facts.calls(*drawing.PERMUTATIONS):
        sized = any(value.scale is not Scale.CONST for value in event.arguments.all())
        if sized and context.facts.in_training(event):
            context.advice(
                "samples are paired at random within a rank's share of the batch: the smaller it is, the more are "
                "paired with themselves", event.module, event.node,
            )  # fmt: skip
    if per_rank:
        context.not_needed("each rank's loss is that of one process's batch, and their gradients are averaged")
    elif not rescaled and not context.decisions.loss_reductions:
        context.not_needed("the loss is a mean over samples")


def _mend(context: Context, event: Event, per_rank: bool) -> bool:
    """Lets the mean of all ranks' gradients be that of the batch, or leaves it to a person; whether by a factor."""
    scale = Scale.COUPLED if kept_in(event.receiver) else Scale.MEAN if per_rank else event.receiver.scale
    if scale is Scale.SUM:
        return _rescale(context, event)
    if scale not in (Scale.MEAN, Scale.REDUCED):
        message, fix = _of_earlier(event) or _PROBLEMS.get(scale, _UNKNOWN)
        why = context.decisions.coupled.get(event.node)
        message += f"; it cannot be gathered by itself: {why}" if why else ""
        context.needs_you(message, event.module, event.node, fix)
    return False


def _average_closure(context: Context, event: Event) -> None:
    """`optimizer.step(closure)`: what the optimizer compares is the loss of the global batch."""
    node, scale = event.node, event.value.scale
    if not isinstance(node, cst.Call) or not node.args or not dealt_by(event.value.sources):
        return
    if scale not in (Scale.MEAN, Scale.REDUCED, Scale.SUM):
        context.needs_you(
            "the optimizer compares what its closure returns, which is one rank's", event.module, node,
            "return the loss of the global batch from the closure",
        )  # fmt: skip
    elif context.editable(event.module, node, "an optimizer evaluates its loss here"):
        options = ", summed=True" if scale is Scale.SUM else ""
        why = "the optimizer compares losses of the global batch"
        context.put_into(event.module, node.args[0].value, f"averaged_closure({{}}{options})", why)
        context.applied(why, event.module, node)


def _of_earlier(event: Event) -> tuple[str, str] | None:
    """A queue, a codebook, centres: what a rank keeps of its own share only."""
    kept = next(iter(kept_in(event.receiver)), None)
    if kept is None or kept.module is None or kept.site is None:
        return None
    return (
        f"the loss depends on what earlier batches left behind ({kept.module.place(kept.site)}), and a rank sees only "
        "its share of them",
        "gather over all ranks what is kept, before it is written: `rt.gather_samples(values)`",
    )


_REASONS = {
    LossForm.SUM: "a sum over the samples of all ranks goes into this loss",
    LossForm.MEAN: "a mean over the samples of all ranks goes into this loss",
    LossForm.ENTRIES: "a mean over the entries of all ranks, of which each has another number",
    LossForm.CRITERION: "a mean by the weights of the samples of all ranks",
}


def _reduce(context: Context, one: LossReduction) -> None:
    module, node = one.module, one.node
    if not context.editable(module, node, "a loss is computed over all ranks"):
        return
    name, why, plan = f"{context.rt(module)}.{one.form.value}", _REASONS[one.form], context.plan(module)
    if isinstance(node, cst.AugAssign):
        target = code_of(node.target)
        plan.insert_before(module.statement(node), f"{target} = {name}({target})", CODE, why)
    elif isinstance(node, cst.BaseExpression):
        spelled = {LossForm.CRITERION: given_to(name), LossForm.ENTRIES: _of_entries(name)}
        plan.replace(node, spelled.get(one.form, call_of(f"{name}({{}})")), CODE, why)
    context.applied(why, module, node)


def _of_entries(name: str) -> Rewrite:
    """`x.mean()` and `torch.mean(x)` become `name(x)`."""

    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        assert isinstance(updated, cst.Call)
        if updated.args:
            return updated.with_changes(func=cst.parse_expression(name))
        assert isinstance(updated.func, cst.Attribute)
        return call_of(f"{name}({{}})")(updated.func.value)

    return rewrite


def _rescale(context: Context, event: Event) -> bool:
    """Where `backward` is called, never in the criterion, whose value is printed too."""
    node = event.receiver_node
    if node is None or event.kind is not Kind.METHOD:
        context.needs_you(
            "gradients are averaged over ranks, and this loss is a sum", event.module, event.node,
            "multiply the loss by the world size",
        )  # fmt: skip
        return False
    if not context.editable(event.module, event.node, "a summed loss is propagated"):
        return False
    scaled = call_of(f"({{}} * {context.rt(event.module)}.world_size())")
    context.plan(event.module).replace(node, scaled, CODE, "gradients are averaged over ranks, and this loss is a sum")
    context.applied("the summed loss is scaled by the world size", event.module, event.node)
    return True


RULE = Rule(
    code=CODE,
    name="loss scale",
    why="DistributedDataParallel averages gradients. The average over ranks of sums is N times too small.",
    safety="Means stay as they are, sums are scaled where `backward` is called. A loss that relates samples to "
    "each other, is "
    "weighted by the samples, or cannot be followed is left to a person.",
    run=run,
    shared="every rank computes the loss of the whole batch",
    pitfalls=(8, 9, 49),
    examples=(
        Example(
            loss='loss = nn.functional.mse_loss(model(x), y, reduction="sum")',
            step="""
              optimizer.zero_grad()
            - loss.backward()
            + (loss * rt.world_size()).backward()
              optimizer.step()
            """,
        ),
        LeftAlone(loss="loss = ((model(x) - y) ** 2).sum() / len(x)"),
        LeftAlone(
            loss="""
            scores = model(x) @ y.T
            loss = nn.functional.cross_entropy(scores, torch.arange(len(x)))
            """
        ),
    ),
)
