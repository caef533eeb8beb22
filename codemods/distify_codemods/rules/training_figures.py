"""METRIC01: figures of training that are used after its loop are those of all samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import libcst as cst

from distify_codemods.decisions import own_figures
from distify_codemods.decisions.base import Left, Reduction, Sharding
from distify_codemods.facts import Facts
from distify_codemods.file_events import code_of
from distify_codemods.naming import brief
from distify_codemods.rules.at_once import write
from distify_codemods.rules.base import Context, Rule, outside_with
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.training_data import counted_twice

CODE = "METRIC01"


def run(context: Context) -> None:
    summed = _after_loops(context)
    kept = [one for one in context.decisions.averages if one.code == CODE]
    write(context, kept)
    around = own_figures.beside_means(context.decisions)
    for left in _said_once(context.facts, context.decisions.left):
        what = "counted here is of rank 0's samples only; the means beside it are those of all ranks"
        what = what if left.node in around else "kept or logged here is of rank 0's samples only"
        context.advice(f"what is {what}", left.module, left.node)
    written = own_figures.written(context.decisions)
    for module, node in written:
        context.advice("what is written here is of rank 0's samples only", module, node)
    changed = {node for one in kept for node in (one.node, *one.module.enclosing(one.node))}
    given = [event for event in context.own_figures.in_others_hands() if event.node not in changed]
    for event in given:
        context.advice(
            f"`{code_of(event)}` is given figures of a rank's own samples, and it is not known what it keeps of them",
            event.module, event.node,
        )  # fmt: skip
    if not summed and not kept and not given and not written and not context.decisions.left:
        put_together = context.decisions.joinings or context.decisions.loss_reductions
        figure = "a rank's own samples" if put_together else "the training loop"
        also = _summed_with_the_evaluation(context)
        context.not_needed(also or f"no figure of {figure} is kept{_but_the_last(context)}")


def _said_once(facts: Facts, left: Sequence[Left]) -> Iterator[Left]:
    """Where a figure is handed over, and not once more in the function that takes it."""
    told = {one.node for one in left}
    callers: dict[cst.CSTNode, set[cst.CSTNode]] = defaultdict(set)
    for frame in {event.here.frame for event in facts.run.events}:
        callers[frame.node].update([step for step in frame.context if isinstance(step, cst.CSTNode)][-1:])
    for one in left:
        calls = callers[one.module.function(one.node)]
        if not calls or any(
            told.isdisjoint(own_figures.within_the_statement(facts.module_of(call), call)) for call in calls
        ):
            yield one


def _summed_with_the_evaluation(context: Context) -> str:
    """Of one loop for both phases."""
    trains = {loop.node for loop in context.facts.training_loops}
    found = [name for one in context.decisions.reductions if one.loop.node in trains for name in one.names]
    names = ", ".join(dict.fromkeys(found))
    return f"{names}: summed over the ranks where the evaluation's are, in the loop of both" if names else ""


def _but_the_last(context: Context) -> str:
    found = context.own_figures.of_last_batch()
    if found is None:
        return ""
    module, node = found
    return f", but that of the last batch (`{brief(node)}` at {module.place(node)}), of which each rank keeps its own"


def _after_loops(context: Context) -> bool:
    done: set[cst.CSTNode] = set()
    for reduction in context.decisions.training_sums:
        loop, module = reduction.loop, reduction.loop.module
        sharded = not loop.loaders or any(
            context.decisions.sharding_of(loader) is Sharding.TRAINING for loader in loop.loaders
        )
        if loop.node in done or not sharded or not context.editable(module, loop.node, "training figures are counted"):
            continue
        done.add(loop.node)
        if reduction.names:
            _sum(context, reduction)
        if reduction.means:
            _average(context, reduction)
    return bool(done)


def _sum(context: Context, reduction: Reduction) -> None:
    loop, module = reduction.loop, reduction.loop.module
    names = ", ".join(reduction.names)
    text = f"{names} = {context.rt(module)}.all_reduce_sum({names})"
    if reduction.loader:
        text = f"if {context.rt(module)}.is_sharded({reduction.loader}):\n    {text}"
    elif reduction.when:
        text = f"if {reduction.when}:\n    {text}"
    reason = "counted over all ranks' samples, as what it is divided by counts them all"
    context.plan(module).insert_after(outside_with(module, loop.node), text, CODE, reason)
    told = f"{names} summed over the ranks after the training loop{counted_twice(context, loop.loaders)}"
    context.applied(told, module, loop.node)


def _average(context: Context, reduction: Reduction) -> None:
    """Of means over equal shares; where the loop also evaluates, all ranks have the same, and keep it."""
    loop, module = reduction.loop, reduction.loop.module
    names = ", ".join(reduction.means)
    text = f"{names} = {context.rt(module)}.all_reduce_mean({names})"
    reason = "the mean over the ranks is that of the global batches"
    context.plan(module).insert_after(outside_with(module, loop.node), text, CODE, reason)
    context.applied(f"{names} averaged over the ranks after the training loop", module, loop.node)


RULE = Rule(
    code=CODE,
    name="training figures",
    why="A rank counts its own share: divided by the size of the whole data set, its accuracy is 1/N of the truth.",
    safety="What is added up in the training loop and used after it is summed over the ranks, or averaged where it "
    "adds up means. What is handed over in the loop to a meter, a list, an attribute, a file or a tracker is made that "
    "of the global batch, as long as no gradient flows through it: before the statements that look at a meter or list, "
    "where these are seen and not in each turn, else where it is handed over. What is only printed under way stays "
    "rank 0's, and so does what is written into places of an array, a dictionary or a heap, and what cannot be "
    "followed; all of these are said.",
    run=run,
    shared="every rank has the figures of whole batches",
    pitfalls=(7,),
    examples=(
        Example(
            epoch="near = 0\n{epoch}",
            loss="guess = model(x)\nloss = nn.functional.mse_loss(guess, y)",
            step="{step}\nnear += ((guess - y).abs() < 0.1).sum().item()",
            later="""
            + near = rt.all_reduce_sum(near)
              print(near / len(data))
            """,
        ),
        LeftAlone(
            epoch="near = 0",
            loss="guess = model(x)\nloss = nn.functional.mse_loss(guess, y)",
            step="{step}\nnear = loss.item()",
            later="print(near)",
        ),
    ),
)
