"""DATA01: each rank trains on its own share of the data, in batches that together are the batch of before."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from distify_codemods import arguments, tree
from distify_codemods.decisions.base import Dealing, LoaderDecision, Sharding
from distify_codemods.decisions.dealing import makes_own_batches
from distify_codemods.decisions.entire import computed_entirely
from distify_codemods.decisions.workers import are_told_apart
from distify_codemods.events import Event
from distify_codemods.inside import made_of, root
from distify_codemods.libraries.torch_data import PARAMETERS
from distify_codemods.naming import brief
from distify_codemods.objects import External
from distify_codemods.rules import texts
from distify_codemods.rules.base import Context, Rule, call_of
from distify_codemods.rules.datasets import (
    can_be_named,
    dataset_expression,
    only_other_options,
    share_workers,
    through_runtime,
)
from distify_codemods.rules.examples import Example, LeftAlone

CODE = "DATA01"


def run(context: Context) -> None:
    context.tell_blocked()
    found = [decision for decision in context.decisions.loaders if decision.sharding is Sharding.TRAINING]
    for decision in found:
        if context.editable(decision.module, decision.node, "the training loader is made here"):
            _shard(context, decision)
    for one in computed_entirely(context.facts) if found else ():
        context.advice(one.message, one.module, one.node)
    nothing = not context.facts.training_loops and not any(
        one.code in (CODE, "DATA04") for one in context.decisions.blocked
    )
    if nothing and context.facts.backwards and not _tell_of_unknown(context, context.facts.backwards[0]):
        event = context.facts.backwards[0]
        context.needs_you(
            "this training step is not seen to compute with batches of a DataLoader, nor with a part of a tensor or an "
            "array that is cut out, drawn or folded by hand: nothing is seen that could be dealt out over the ranks",
            event.module, event.node,
            "if it trains on data, put them into a Dataset and loop over a DataLoader; what learns by playing is "
            "distributed by a library for reinforcement learning, or run as one copy per seed",
        )  # fmt: skip
    for event in context.facts.backwards:
        if context.facts.training_loops and not context.facts.in_training(event):
            context.needs_you(
                "this backward pass is outside of the loops over the training loader",
                event.module, event.node, "move it into the loop over the loader",
            )  # fmt: skip


def _tell_of_unknown(context: Context, backward: Event) -> bool:
    """Whether the batches come from something of a library of which is not known that it deals them out."""
    for here in backward.loops():
        if not isinstance(here.node, cst.For):
            continue
        made = (obj for value in made_of([context.facts.value(here.node.iter)]) for obj in map(root, value.objs))
        maker = next((obj.name for obj in made if isinstance(obj, External) and not obj.name.startswith(_OTHER)), None)
        if maker is not None:
            context.needs_you(
                f"the batches of this training step come from `{brief(here.node.iter)}`, which `{maker}` has made: it "
                "is not known how they could be dealt out over the ranks",
                backward.module, backward.node, "a DataLoader of torch's over a Dataset is dealt out",
            )  # fmt: skip
            return True
    return False


#: What they make and is no loader is no batches either.
_OTHER = ("torch.", "builtins.")


def _shard(context: Context, decision: LoaderDecision) -> None:
    dealing, rt = decision.dealing, context.rt(decision.module)
    starred = [arg for arg in decision.node.args if arg.star == "**"]
    told = not starred or only_other_options(context, starred)
    if dealing is Dealing.EXAMPLES:
        texts.shard(context, decision)
    elif decision.returned or _is_hidden(decision, told):
        context.plan(decision.module).replace(decision.node, call_of(_view(decision, rt)), CODE, _REASON)
    elif dealing is Dealing.AT_RUN_TIME or not told:
        through_runtime(context, decision, f"{rt}.shard_training", _REASON)
    else:
        _BY_DEALING[dealing](context, decision)
    if are_told_apart(context.decisions, decision.node):
        _seed_workers_apart(context, decision, rt)
    kept = "each rank's batch is as large as one process's" if context.options.per_rank_batch else _KEPT
    own = any(map(makes_own_batches, decision.loaders))
    twice = _OF_EACH if own else _TWICE * may_end_short(decision)
    context.applied(f"the training loader deals each rank its share; {kept}{twice}", decision.module, decision.node)
    if dealing is Dealing.STREAM:
        context.advice("every rank reads the whole stream and keeps its share: training gets faster, reading does not",
                       decision.module, decision.node)  # fmt: skip


def may_end_short(decision: LoaderDecision) -> bool:
    """Whether the last batch of a pass may hold fewer samples than the others."""
    told = [one.arguments.get("drop_last", PARAMETERS.index("drop_last")) for one in decision.loaders]
    return any(one is None or one.constant() is not True for one in told)


def repeats_in(context: Context, loaders: Collection[External] = ()) -> str:
    """In which batches of training samples may stand twice, of these loaders or of all; empty: in none.

    Those that are cut by hand are filled up, too.
    """
    training = [one for one in context.decisions.loaders if one.sharding is Sharding.TRAINING]
    found = [one for one in training if not loaders or any(each.obj in loaders for each in one.loaders)]
    if any(makes_own_batches(loader) for one in found for loader in one.loaders):
        return "a batch"
    return "the last batch" if not found or any(map(may_end_short, found)) else ""


def counted_twice(context: Context, loaders: Collection[External]) -> str:
    """What is to be said of a sum over samples of training."""
    which = repeats_in(context, loaders)
    twice = f"; where {which} is filled up, some samples count twice, but not in the length of the data set"
    return twice if which else ""


_KEPT = "the global batch stays as it is"
_TWICE = ", and where the last batch does not divide by the ranks, some of its samples count twice"
_OF_EACH = ", and where one of its batches does not divide by the ranks, some of its samples count twice"
_REASON = "each rank gets its own share, reshuffled alike on all"
_IN_ORDER = "each rank gets its own share, in the order of the data set"


def _is_hidden(decision: LoaderDecision, told: bool) -> bool:
    """Whether what each rank is to load cannot be said in the call: the loader is sharded once it is made."""
    if decision.dealing is not Dealing.DATASET or not told:
        return bool(decision.when)
    bound = _bound(decision)
    dataset, generator = bound.get("dataset"), bound.get("generator")
    if generator is not None and not tree.is_plain(generator.value):
        return True  # the sampler draws from it, too
    return dataset is not None and not can_be_named(decision, dataset.value)


def _view(decision: LoaderDecision, rt: str) -> str:
    """The loader as it is made, seen in shares."""
    if not decision.when:
        return f"{rt}.training_loader({{}})"
    other = f"{rt}.evaluation_loader" if decision.otherwise is Sharding.SUMS else f"{rt}.whole_loader"
    return f"({rt}.training_loader if {decision.when} else {other})({{}})"


def _by_dataset(context: Context, decision: LoaderDecision) -> None:
    node, module, plan = decision.node, decision.module, context.plan(decision.module)
    bound, rt = _bound(decision), context.rt(module)
    dataset = dataset_expression(context, decision, bound)
    if dataset is None:
        return
    shuffle = _text_or_false(bound.get("shuffle"), "shuffle", decision)
    drop_last = _text_or_false(bound.get("drop_last"), "drop_last", decision)
    generator = tree.code_of(bound["generator"].value) if "generator" in bound and shuffle != "False" else ""
    sampler = context.backend.training_sampler(dataset, rt, shuffle, drop_last, generator)
    if decision.when:
        sampler = f"{sampler} if {decision.when} else {_other_sampler(context, decision, dataset, rt)}"
    for name in ("shuffle", "batch_sampler"):
        if name in bound:
            plan.drop_keyword(node, name)
    plan.set_keyword(node, "sampler", sampler, CODE, _IN_ORDER if shuffle == "False" else _REASON)
    _divide(context, decision, bound)
    share_workers(context, decision, bound)


def _by_own_sampler(context: Context, decision: LoaderDecision) -> None:
    bound, rt = _bound(decision), context.rt(decision.module)
    rewrite = call_of(f"{rt}.DistributedSamplerWrapper({{}}{_drop_last(bound, decision)})")
    reason = "its order, drawn alike on all ranks, is dealt out to them"
    context.plan(decision.module).set_keyword(decision.node, "sampler", rewrite, CODE, reason)
    _divide(context, decision, bound)
    share_workers(context, decision, bound)


def _by_own_shards(context: Context, decision: LoaderDecision) -> None:
    """The script's own DistributedSampler deals out the samples; the batch is still to be divided."""
    bound = _bound(decision)
    _divide(context, decision, bound)
    share_workers(context, decision, bound)


def _by_own_batches(context: Context, decision: LoaderDecision) -> None:
    pattern = f"{context.rt(decision.module)}.DistributedBatchSampler({{}})"
    context.plan(decision.module).set_keyword(
        decision.node, "batch_sampler", call_of(pattern), CODE, "each of its batches is split over the ranks"
    )
    share_workers(context, decision, _bound(decision))


def _by_stream(context: Context, decision: LoaderDecision) -> None:
    """Its workers stay as many as they are: each has a stream of its own."""
    bound, rt = _bound(decision), context.rt(decision.module)
    rewrite = call_of(f"{rt}.shard_iterable({{}}{_drop_last(bound, decision)})")
    context.plan(decision.module).set_keyword(
        decision.node, "dataset", rewrite, CODE, "each rank keeps its own samples"
    )
    _divide(context, decision, bound)


def _seed_workers_apart(context: Context, decision: LoaderDecision, rt: str) -> None:
    """Their seeds are the script's own, or are drawn where ranks draw alike."""
    given = _bound(decision).get("worker_init_fn")
    seeded = f"{rt}.seed_workers_apart({tree.code_of(given.value) if given else ''})"
    if decision.when:
        seeded = f"{seeded} if {decision.when} else {tree.code_of(given.value) if given else None}"
    reason = "the workers of each rank draw for themselves"
    context.plan(decision.module).set_keyword(decision.node, "worker_init_fn", seeded, CODE, reason)


def _drop_last(bound: dict[str, cst.Arg], decision: LoaderDecision) -> str:
    drop_last = _text_or_false(bound.get("drop_last"), "drop_last", decision)
    return f", drop_last={drop_last}" if drop_last != "False" else ""


_BY_DEALING = {
    Dealing.DATASET: _by_dataset,
    Dealing.OWN_SAMPLER: _by_own_sampler,
    Dealing.OWN_SHARDS: _by_own_shards,
    Dealing.OWN_BATCHES: _by_own_batches,
    Dealing.STREAM: _by_stream,
}


def _bound(decision: LoaderDecision) -> dict[str, cst.Arg]:
    return arguments.bound(decision.node, PARAMETERS)


def _divide(context: Context, decision: LoaderDecision, bound: dict[str, cst.Arg]) -> None:
    if context.options.per_rank_batch:
        return
    plan, node, rt = context.plan(decision.module), decision.node, context.rt(decision.module)
    size = tree.code_of(bound["batch_size"].value) if "batch_size" in bound else "1"
    other = f" if {decision.when} else {size}" if decision.when else ""
    if "batch_size" not in bound:
        text = f"{rt}.per_rank_batch_size(1){other}"
        plan.set_keyword(node, "batch_size", text, CODE, "batches of 1 cannot be divided")
    elif not _is_a_ranks(context, bound["batch_size"].value) and not context.decisions.divided_at_definition(
        context.facts.value(bound["batch_size"].value)
    ):
        rewrite = call_of(f"{rt}.per_rank_batch_size({{}}){other}")
        plan.set_keyword(node, "batch_size", rewrite, CODE, "the global batch stays what it was")


def _is_a_ranks(context: Context, size: cst.BaseExpression) -> bool:
    """Whether the script has divided its batch by the number of ranks itself."""
    return "ranks" in context.facts.value(size).sources


def _other_sampler(context: Context, decision: LoaderDecision, dataset: str, rt: str) -> str:
    """The sampler of what the same line makes when it does not make the training loader."""
    if decision.otherwise is Sharding.SUMS:
        return f"{rt}.UnpaddedSampler({dataset})"
    given = [loader.arguments.get("shuffle", 2) for loader in decision.others]
    if all(value is None or value.constant() is False for value in given):
        return "None"
    return context.backend.whole_sampler(dataset, context.sampler(decision.module), rt)


def _text_or_false(argument: cst.Arg | None, name: str, decision: LoaderDecision) -> str:
    """An option of the training loader, by its value in the contexts where the line makes that."""
    if argument is None:
        return "False"
    values = [loader.arguments.get(name, PARAMETERS.index(name)) for loader in decision.loaders]
    known = {value.constant() if value is not None and not value.is_none else False for value in values}
    return str(known.pop()) if known in ({True}, {False}) else tree.code_of(argument.value)


RULE = Rule(
    code=CODE,
    name="training data",
    why="Without a sampler that deals out shares every rank trains on all of the data: N times the work for the same "
    "steps. With the "
    "batch size kept per rank, the global batch grows N-fold and the learning rate no longer fits.",
    safety="For loaders whose batches reach a backward pass. The sampler's order is torch's own, dealt out in turn, "
    "so that N ranks see the batches of one process. Samplers and batch samplers of the script go on choosing: all "
    "ranks draw from them alike, and share what is drawn; so do streams (IterableDataset). Data sets that yield whole "
    "batches, and batches that do not come from a DataLoader, are left to a person.",
    run=run,
    shared="every rank sees the batches of the script, whole",
    limits="When the number of samples does not divide by the world size, at most N-1 samples of the last batch count "
    "twice in it; of a batch sampler, in each batch that does not divide. Every rank reads the whole of a stream, "
    "and a stream that draws from a generator of its own must seed it alike on all ranks.",
    pitfalls=(2, 3, 4, 20, 32, 33, 34, 35),
    examples=(
        Example(
            loader="""
            - loader = DataLoader(data, 8, True, drop_last=True)
            + loader = DataLoader(data, rt.per_rank_batch_size(8),
            +                     sampler=rt.TrainingSampler(data, drop_last=True), drop_last=True)
            """
        ),
        Example(
            data="+ training_dataset = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))",
            loader="""
              loader = DataLoader(
            -     TensorDataset(torch.randn(64, 4), torch.randn(64, 1)),
            -     batch_size=8,  # samples
            -     shuffle=True,
            +     training_dataset,
            +     batch_size=rt.per_rank_batch_size(8),  # samples
            +     sampler=rt.TrainingSampler(training_dataset),
              )
            """,
        ),
        Example(
            torch="""
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler
            """,
            loader="""
            - loader = DataLoader(data, batch_size=8, sampler=WeightedRandomSampler([1.0] * 64, 64))
            + loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
            +                     sampler=rt.DistributedSamplerWrapper(WeightedRandomSampler([1.0] * 64, 64)))
            """,
        ),
        LeftAlone(
            data="",
            loader="loader = DataLoader(TensorDataset(torch.randn(64, 8, 4), torch.randn(64, 8, 1)), batch_size=None)",
        ),
    ),
)
