"""BATCH01: where the batch size also shapes tensors, it is divided where it is defined."""

from __future__ import annotations

import libcst as cst

from distify_codemods import command_line
from distify_codemods.allocation import Const
from distify_codemods.decisions import dealing
from distify_codemods.decisions.accumulation import waits
from distify_codemods.decisions.base import Division, LoaderDecision, Sharding
from distify_codemods.decisions.loaders_of_one import is_passed_by, of_one_sample
from distify_codemods.facts import Facts, Loader
from distify_codemods.objects import Setting
from distify_codemods.rules import squeezing
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example, LeftAlone

CODE = "BATCH01"

#: With fewer samples a device seldom has enough to do; seen at as many ranks as a machine often has devices.
_FEW, _RANKS = 8, 4
#: As many devices as one machine often has: a batch with fewer samples has none for some of them.
_MOST_RANKS = 8
_LARGER, _LINEAR = "make it at least as large as there are ranks", "or convert with --scale linear"
_FEWER = (
    " (where a step adds up the gradients of several passes, as many times fewer passes are the same but for BatchNorm)"
)
#: What is written for batches of one sample may leave out all others: `batch[0]`, `squeeze(0)`.
_WRITTEN_FOR_ONE = "if the loop is written for more than one sample in a batch"


def run(context: Context) -> None:
    context.tell_blocked()
    if context.shares_forwards:
        _enlarge(context)
        return
    for division in context.decisions.divisions:
        _divide(context, division)
    squeezed = squeezing.run(context)
    for decision in context.decisions.loaders:
        if decision.sharding is Sharding.TRAINING and not context.options.per_rank_batch:
            _advise(context, decision)
    if context.options.per_rank_batch:
        context.not_needed("each rank's batch is as large as the script says")
    elif context.decisions.slicings:
        context.not_needed("batches are made as large as the script says, and cut: each rank keeps its part")
    elif not context.decisions.divisions and not squeezed:
        context.not_needed_if_known("no tensor is shaped by the batch size that loaders are given")


def _enlarge(context: Context) -> None:
    """Where all ranks see whole batches: `--scale linear` and `--scale none`."""
    for one in context.decisions.enlarged:
        if context.editable(one.module, one.node, "the training loader is made here"):
            reason = "each rank computes as much as the script says"
            context.put_into(one.module, one.node, "scale_batch_size({})", reason)
            context.applied("batches have as many times as many samples as there are ranks", one.module, one.node)
            loaders = [loader for loader in context.facts.loaders if loader.call is one.node]
            if any(of_one_sample(context.facts, loader) for loader in loaders):
                context.advice(
                    "each batch had one sample, and has one for each rank now: see that the loop takes all of them, "
                    "and not the first alone, as `batch[0]` does", one.module, one.node,
                )  # fmt: skip
    if not context.options.per_rank_batch:
        facts = context.facts
        for loader in {one.call: one for one in facts.loaders if one.obj in facts.training_loaders}.values():
            if alone := of_one_sample(facts, loader):
                context.advice(
                    f"{alone}: such a batch is shared only where the run finds that parts of the sample can be, and "
                    f"else computed whole by every rank; {_larger(facts)}, {_WRITTEN_FOR_ONE}",
                    loader.made.module, loader.call,
                )  # fmt: skip
            elif found := _few_samples(facts, loader):
                unless, size = found
                context.advice(
                    f"{unless}a batch has {size} samples: what has one row for each of them is work for {size} ranks "
                    f"at most; more of them would each compute it whole, which is right, but no faster; "
                    f"{_larger(facts)}",
                    loader.made.module, loader.call,
                )  # fmt: skip
        context.not_needed("every rank sees the batch size of the script")


def _advise(context: Context, decision: LoaderDecision) -> None:
    """A batch whose shares would be too small to be worth several ranks, if its size is seen."""
    alone = next((one for loader in decision.loaders if (one := of_one_sample(context.facts, loader))), "")
    if alone:
        context.advice(
            f"{alone}: such a batch cannot be dealt out to several ranks, and the run ends where the loader is made; "
            f"{_larger(context.facts)}, {_WRITTEN_FOR_ONE}", decision.module, decision.node,
        )  # fmt: skip
        return
    sizes = {value.constant() for value in decision.batch_sizes}
    size, unless = sizes.pop() if len(sizes) == 1 else None, ""
    few = {_few_samples(context.facts, loader) for loader in decision.loaders}
    if size is None and len(few) == 1 and (found := few.pop()):
        unless, size = found
    if type(size) is int and size > 1 and (said := _of_few(size)):
        context.advice(f"{unless}{said}", decision.module, decision.node)


def _larger(facts: Facts) -> str:
    """What to do with such batches."""
    return f"{_LARGER}{_FEWER if waits(facts) else ''}, {_LINEAR}"


def _of_few(size: int) -> str:
    """What is to be said of a batch of so many samples on as many ranks as a machine often has devices."""
    linear = f"--scale linear keeps {size} on each rank, and scales the learning rate"
    ranks = next((one for one in (_RANKS, 2) if size % one == 0), None)
    if ranks is None:
        others = [one for one in range(3, min(size, _MOST_RANKS) + 1) if size % one == 0]
        fit = f"it divides by {' and '.join(map(str, others))} ranks; " if others else ""
        return (
            f"a batch of {size} does not divide by 2 or by {_RANKS} ranks, and on so many the run ends where the "
            f"loader is made: {fit}{size - 1} or {size + 1} samples would do; {linear}"
        )
    if size >= _FEW * ranks:
        return ""
    share = "a single sample" if size == ranks else f"{size // ranks} samples"
    few = f"of a batch of {size}, each of {ranks} ranks gets {share}: too few to be worth it"
    return f"{few}, unless a sample is much work; {linear}"


def _few_samples(facts: Facts, loader: Loader) -> tuple[str, int] | None:
    """How many samples its batches have, if that is seen and too few for some ranks; and what else may be given."""
    value = loader.arguments.get("batch_size", 1)
    only = value.single() if value is not None and not value.open else None
    if dealing.given(loader, "batch_sampler") is not dealing.Given.NO or is_passed_by(facts, loader):
        return None
    unless, size = "", only.value if isinstance(only, Const) else None
    if isinstance(only, Setting):
        unless, size = f"unless the option `{only.name}` is given, ", command_line.integers(facts).get(only.name)
    return (unless, size) if type(size) is int and 1 < size < _MOST_RANKS else None


def _divide(context: Context, division: Division) -> None:
    module = division.module
    if not context.editable(module, division.node, "the batch size is defined here"):
        return
    reason = f"it also shapes tensors (line {division.used}), whose first dimension is the rank's share"
    if isinstance(division.node, cst.BaseExpression):
        context.put_into(module, division.node, "per_rank_batch_size({})", reason)
    else:
        text = f"{division.setting} = {context.rt(module)}.per_rank_batch_size({division.setting})"
        context.plan(module).insert_after(division.node, text, CODE, reason, -20)
    context.applied("the batch size is each rank's share from its definition on", module, division.node)


RULE = Rule(
    code=CODE,
    name="batch size",
    why="Tensors that are sized by the batch size (labels, noise, hidden states) no longer fit a rank's share "
    "of the batch.",
    safety="When a training loader's batch size also sizes tensors in the training loop, it is divided where it "
    "is defined. Where forward passes are shared, `--scale linear` and `--scale none` make the batches that all ranks "
    "see larger, and tensors that are sized by the batch size need you. Batches that are seen to be of one sample, or "
    "of too few for some ranks, are advice.",
    run=run,
    pitfalls=(3,),
    examples=(
        Example(
            group="""
            - batch_size = 8
            + batch_size = rt.per_rank_batch_size(8)
              {group}
            """,
            loader="""
            - loader = DataLoader(data, batch_size=batch_size, shuffle=True, drop_last=True)
            + loader = DataLoader(data, batch_size=batch_size,
            +                     sampler=rt.TrainingSampler(data, drop_last=True), drop_last=True)
            """,
            loss="real = torch.ones(batch_size, 1)\nloss = nn.functional.mse_loss(model(x), real)",
        ),
        LeftAlone(
            group="batch_size = 8",
            loader="loader = DataLoader(data, batch_size=batch_size, shuffle=True, drop_last=True)",
            loss="real = torch.ones(x.size(0), 1)\nloss = nn.functional.mse_loss(model(x), real)",
        ),
        LeftAlone(
            group="batch_size = 8",
            loader="loader = DataLoader(data, batch_size=batch_size, shuffle=True, drop_last=True)",
            optimizer="optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * batch_size / 256)",
            loss="real = torch.ones(batch_size, 1)\nloss = nn.functional.mse_loss(model(x), real)",
        ),
    ),
)
