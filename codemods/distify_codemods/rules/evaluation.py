"""EVAL01: an evaluation counts each sample once, and its figures are those of all samples."""

from __future__ import annotations

import libcst as cst

from distify_codemods import arguments, tree
from distify_codemods.decisions.base import Gathering, LoaderDecision, Reduction, Sharding, View
from distify_codemods.decisions.dealing import in_order, loader_draws
from distify_codemods.libraries import torch_data
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, Rule, call_of, outside_with
from distify_codemods.rules.datasets import dataset_expression, only_other_options, share_workers, through_runtime
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.training_data import counted_twice

CODE = "EVAL01"


def run(context: Context) -> None:
    context.tell_blocked()
    for decision in context.decisions.loaders:
        if decision.returned and decision.sharding is Sharding.SUMS:
            _replace(context, decision.module, decision.node, "{rt}.evaluation_loader({{}})")
        elif decision.sharding is Sharding.REPLICATED and any(loader_draws(one) for one in decision.loaders):
            _share_order(context, decision)
        elif decision.returned:
            continue
        elif decision.sharding is Sharding.SUMS:
            _shard(context, decision)
        elif decision.sharding is Sharding.GATHERED:
            _split(context, decision)
    for view in context.decisions.views:
        if context.editable(view.module, view.node, "a loader is read for something else than training"):
            _view(context, view)
    done = _put_together(context)
    if not done and not context.decisions.views:
        without = not all(event.grad for event in context.facts.forwards)  # they are not called to be trained
        what = "nothing evaluates on the batches of a loader: every rank evaluates all" if without else ""
        context.not_needed_if_known(what or "no evaluation loop")


def _put_together(context: Context) -> set[cst.CSTNode]:
    """What loops leave, each in the best way that it has; the loops themselves."""
    done: set[cst.CSTNode] = set()
    ways: list[Reduction | Gathering] = [*context.decisions.reductions, *context.decisions.gatherings]
    for one in ways:
        if one.loop.node not in done:
            done.add(one.loop.node)
            if isinstance(one, Reduction):
                _reduce(context, one)
            else:
                _gather(context, one)
    for loop, why in context.decisions.replicated:
        if loop.node not in done:
            done.add(loop.node)
            message = f"every rank evaluates everything, which is right but no faster: {why}"
            context.advice(message, loop.taking.module, loop.taking.node)
    return done


def _replace(context: Context, module: Module, node: cst.BaseExpression, pattern: str) -> None:
    """Puts a loader into a call of the runtime: `{rt}` is its name, `{{}}` the loader."""
    reason = (
        "each sample on one rank, none twice" if "evaluation" in pattern else "all samples, in the batches of before"
    )
    context.plan(module).replace(node, call_of(pattern.format(rt=context.rt(module))), CODE, reason)


def _view(context: Context, view: View) -> None:
    name = "evaluation_loader" if view.sharding is Sharding.SUMS else "whole_loader"
    if view.unless:
        text = tree.code_of(view.node)
        pattern = f"({text} if {view.unless} else {{rt}}.{name}({{{{}}}}))"
    else:
        pattern = f"{{rt}}.{name}({{{{}}}})"
    _replace(context, view.module, view.node, pattern)
    done = "what does not train sees each sample once"
    if view.sharding is not Sharding.SUMS:
        done = "what does not train sees all samples, on every rank, which is right but no faster"
    context.applied(done, view.module, view.node)


def _shard(context: Context, decision: LoaderDecision) -> None:
    """An unpadded share of the samples for each rank; their order does not matter to sums."""
    node, module, plan = decision.node, decision.module, context.plan(decision.module)
    rt, reason = context.rt(module), "each sample on one rank, none twice"
    starred = [arg for arg in node.args if arg.star == "**"]
    if starred and not only_other_options(context, starred):
        through_runtime(context, decision, f"{rt}.shard_evaluation", reason)
        return
    bound = arguments.bound(node, torch_data.PARAMETERS)
    dataset = dataset_expression(context, decision, bound)
    if dataset is None:
        return
    for name in ("shuffle", "batch_sampler"):
        if name in bound:
            plan.drop_keyword(node, name)
    if "sampler" in bound and not all(in_order(loader) for loader in decision.loaders):
        plan.set_keyword(node, "sampler", call_of(f"{rt}.UnpaddedSampler({dataset}, {{}})"), CODE, reason)
    else:
        plan.set_keyword(node, "sampler", f"{rt}.UnpaddedSampler({dataset})", CODE, reason)
    share_workers(context, decision, bound)


def _share_order(context: Context, decision: LoaderDecision) -> None:
    """All ranks evaluate the same batches, so that a figure which depends on them is the same on all."""
    if context.editable(decision.module, decision.node, "a loader that shuffles is made here"):
        _replace(context, decision.module, decision.node, "{rt}.whole_loader({{}})")


def _split(context: Context, decision: LoaderDecision) -> None:
    """The same batches as before, each split over the ranks."""
    node, module, plan = decision.node, decision.module, context.plan(decision.module)
    bound = arguments.bound(node, torch_data.PARAMETERS)
    dataset = dataset_expression(context, decision, bound)
    if dataset is None:
        return
    rt = context.rt(module)
    size = tree.code_of(bound["batch_size"].value) if "batch_size" in bound else "1"
    last = f", drop_last={tree.code_of(bound['drop_last'].value)}" if "drop_last" in bound else ""
    for name in ("batch_size", "shuffle", "sampler", "drop_last"):
        if name in bound:
            plan.drop_keyword(node, name)
    sampler = f"{rt}.ShardedBatchSampler({dataset}, {size}{last})"
    plan.set_keyword(node, "batch_sampler", sampler, CODE, "the batches stay as they are, each split over the ranks")
    share_workers(context, decision, bound)


def _reduce(context: Context, reduction: Reduction) -> None:
    loop, module = reduction.loop, reduction.loop.module
    rt, names = context.rt(module), ", ".join(reduction.names)
    text = f"{names} = {rt}.all_reduce_sum({names})"
    context.plan(module).insert_after(outside_with(module, loop.node), text, CODE, "sums over all ranks' samples")
    trains = any(one.node is loop.node for one in context.facts.training_loops)
    twice = counted_twice(context, loop.loaders) if trains else ""
    context.applied(f"evaluated in shares, and {names} summed over the ranks{twice}", module, loop.node)


def _gather(context: Context, gathering: Gathering) -> None:
    loop, module = gathering.loop, gathering.loop.module
    rt, names = context.rt(module), ", ".join(gathering.names)
    several = ", several_rows=True" if gathering.several_rows else ""
    text = f"{names} = {rt}.gather_batch({gathering.loader}, {names}{several})"
    reason = "the batch put together again: what follows sees all of it, on every rank"
    context.plan(module).insert_after(gathering.statement, text, CODE, reason)
    context.applied(f"each batch is evaluated in shares, and {names} gathered", module, loop.node)


_CLASSES = {
    "data": "data = TensorDataset(torch.randn(64, 4), torch.randint(3, (64,)))",
    "model": "model = nn.Linear(4, 3)",
    "loss": "loss = nn.functional.cross_entropy(model(x), y)",
}
RULE = Rule(
    code=CODE,
    name="evaluation",
    why="A sampler that pads counts samples twice; figures of one rank's share are not the accuracy.",
    safety="Sharded without padding and summed, where all that leaves the loop is a sum over samples; else each "
    "batch is split and "
    "what the model returns is gathered; else every rank evaluates everything. Only in eval mode.",
    run=run,
    shared="each rank evaluates as one process does, and no more is shared than what SHARE01 names",
    pitfalls=(5, 6, 7, 17),
    examples=(
        Example(
            **_CLASSES,
            loader="""
              {loader}
            - test = DataLoader(data, batch_size=16)
            + test = DataLoader(data, batch_size=16, sampler=rt.UnpaddedSampler(data))
            """,
            end="""
              model.eval()
              right = 0
              with torch.no_grad():
                  for x, y in test:
            -         right += (model(x).argmax(1) == y).sum().item()
            +         right += (model.module(x).argmax(1) == y).sum().item()
            + right = rt.all_reduce_sum(right)
              print(right / len(data))
            """,
        ),
        Example(
            **_CLASSES,
            loader="""
              {loader}
            - test = DataLoader(data, batch_size=16)
            + test = DataLoader(data, batch_sampler=rt.ShardedBatchSampler(data, 16))
            """,
            end="""
              model.eval()
              scores = []
              with torch.no_grad():
                  for x, y in test:
            -         score = model(x).softmax(1)
            +         score = model.module(x).softmax(1)
            +         score = rt.gather_batch(test, score)
                      scores.append(score)
              print(torch.cat(scores).std())
            """,
        ),
        LeftAlone(
            **_CLASSES,
            loader="{loader}\ntest = DataLoader(data, batch_size=16)",
            end="""
            model.eval()
            total = 0.0
            with torch.no_grad():
                for x, y in test:
                    total += nn.functional.cross_entropy(model(x), y).item()
            print(total / len(test))
            """,
        ),
    ),
)
