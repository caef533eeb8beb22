"""What a difference usually means."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import torch

from distify_runtime.trace.traces import Trace

_NEAR = 1e-3
_Lines = Sequence[tuple[int, str, str, int]]  # a step, a place, what stands there, and how many in that step
#: Times the original's work that ranks may do together; more than that is no padding.
_TOO_MUCH = 1.5
DRAWN_ALIKE = (
    "`rt.seed_ranks_apart()`, or a seed with the rank in it, is missing before that, or the ranks are seeded alike "
    "again behind it"
)


def about_steps(original: Trace, ranks: Sequence[Trace]) -> str:
    got, wanted, world = len(ranks[0].steps), len(original.steps), len(ranks)
    if len({len(trace.steps) for trace in ranks}) > 1:
        return "ranks have unequal numbers of batches, or decide for themselves when to stop"
    if _shares_forwards(ranks):
        return "an error that is caught, or a decision by what is another in each run: the time, or chance"
    if got * _TOO_MUCH <= wanted:
        return f"each rank kept the whole batch size; divide it by the {world} ranks"
    if got < wanted * _TOO_MUCH:
        return "an error that is caught, or a batch that is left out, which ranks decide each by its own share"
    return "the training loader is not dealt out: each rank goes through all of it (no DistributedSampler)"


def about_parting(original: Trace, ranks: Sequence[Trace], step: int) -> str:
    """Of a first step after which parameters are not the original's, or not the same on all ranks."""
    if any(len(trace.steps) < step for trace in ranks):
        return about_steps(original, ranks)
    optimizer = original.steps[step - 1][0]
    if _apart([trace.beginnings[optimizer : optimizer + 1] for trace in ranks]):
        return "the ranks begin with other weights each: seed them alike before the model is made"
    if _apart([[trace.steps[step - 1][1]] for trace in ranks]):
        if _shares_forwards(ranks):
            return "a rank computes with something of its own: random numbers that the others do not draw, the time"
        return next((trace.hooks for trace in ranks if trace.hooks), "") or (
            "the ranks' gradients are not averaged: the model is not wrapped in DistributedDataParallel, or training "
            "goes around the wrap; or they are clipped before they are averaged"
        )
    if _apart([original.beginnings[optimizer : optimizer + 1], ranks[0].beginnings[optimizer : optimizer + 1]]):
        return "the ranks begin with other weights than the original: something draws random numbers before the model"
    if _shares_forwards(ranks):
        return _drawn_elsewhere(original) or (
            "a forward pass of which the parts do not make up the whole, or random numbers that are drawn in another "
            "order than the original's"
        )
    if _repeats_order(ranks[0], step):
        return "this pass has its samples in the order of an earlier one: `sampler.set_epoch(epoch)` is missing"
    times = _times(original, ranks[0], step)
    if times is not None and abs(times * len(ranks) - 1) < _NEAR:
        return (
            f"the step is {len(ranks)} times too small: the loss is a sum, which averaging over ranks divides; "
            "or it is divided by the ranks twice"
        )
    if times is not None and abs(times / len(ranks) - 1) < _NEAR:
        return (
            f"the step is {len(ranks)} times too large: gradients are summed over ranks instead of averaged, or the "
            "learning rate was scaled, as for a larger batch"
        )
    if times is not None and abs(times - 1) > _NEAR:
        return f"the step is {times:.3g} times the original's: the loss, the gradients or the learning rate are scaled"
    if ranks[0].training_inputs * len(ranks) > _TOO_MUCH * original.training_inputs:
        return (
            f"each rank trains on whole batches: divide the batch size by the {len(ranks)} ranks, and deal the "
            "samples out"
        )
    drawn = (
        _paired(original, ranks, step) or _drawn_for_each_sample(original, ranks, step) or _drawn_elsewhere(original)
    )
    if step == 1:
        return drawn or (
            "other samples (the training loader is not dealt out), BatchNorm with each rank's own statistics, or a "
            "loss that is not the mean over samples"
        )
    if drawn:
        return drawn
    if original.filled:
        return "if it is the last batch of a pass: it does not divide by the ranks"
    return (
        "something that happens at this step and not before: a new pass, a last batch, a decision, a schedule, or "
        "gradients that are not clipped here: where they are, it is hidden that they are summed over ranks"
    )


def about_work(ranks: Sequence[Trace]) -> str:
    """Of ranks that train on more than their part."""
    if _shares_forwards(ranks):
        return (
            "no forward pass of what is trained is shared: the run says why it is computed whole, or "
            "`rt.data_parallel(model)` names another model than training calls"
        )
    return "the training data is not dealt out (no DistributedSampler), or the batch size is not divided"


def _shares_forwards(ranks: Sequence[Trace]) -> bool:
    """Every rank is given whole batches by right."""
    return any(trace.shares_forwards for trace in ranks)


def _drawn_for_each_sample(original: Trace, ranks: Sequence[Trace], step: int) -> str:
    where = _shared_out([trace.singles for trace in (original, *ranks)], step)
    return where and (
        f"a number is drawn for each sample at {where}, which each rank draws by itself for its own samples: what is "
        "made of them cannot be compared. Take out what is drawn so, and compare once more"
    )


def _paired(original: Trace, ranks: Sequence[Trace], step: int) -> str:
    """The line that draws an order of a batch's samples, and on each rank one of its share."""
    where = _shared_out([trace.orders for trace in (original, *ranks)], step)
    return where and (
        f"samples are paired at random within a rank's share of the batch, at {where}: other pairs than one process "
        "makes, of the same kind, so that what is made of them cannot be compared. Take out what is drawn so, and "
        "compare once more"
    )


def _shared_out(noted: Sequence[_Lines], step: int) -> str:
    """Of the lines of which ranks draw their shares, the one that draws most, with its place."""
    wanted, *got = [_counts(lines, step) for lines in noted]
    shared = [line for line, count in wanted.items() if _is_shared_out(count, [own[line] for own in got])]
    if not shared:
        return ""
    most = max(shared, key=lambda line: wanted[line])
    place = next(where for _, where, line, _ in noted[0] if line == most)
    return f"{place} (`{most}`)"


def _counts(lines: _Lines, step: int) -> Counter[str]:
    """By what stands in the line: the original and the ranks may have it at another place."""
    found = Counter[str]()
    for number, _, line, count in lines:
        found[line] += count if number <= step else 0
    return found


def _is_shared_out(wanted: int, got: Sequence[int]) -> bool:
    """Whether ranks have drawn parts of as many numbers, each at least some, and none nearly as many."""
    return len(got) > 1 and min(got) > 0 and max(got) <= wanted / math.sqrt(len(got))


def _drawn_elsewhere(original: Trace) -> str:
    """Libraries whose random numbers no seed of Python's, NumPy's or torch's reaches."""
    names = " and ".join(original.own_draws)
    return names and (
        f"{names} may draw random numbers of {'their' if len(original.own_draws) > 1 else 'its'} own, which nothing "
        "seeds here: two runs of the original part then, too. Take out what is drawn so, and compare once more"
    )


def _apart(parts: Sequence[Sequence[torch.Tensor]]) -> bool:
    """Whether not all of the lists hold the same tensors, up to rounding."""
    first, *others = parts
    return any(
        len(one) != len(first)
        or any(a.shape != b.shape or not torch.allclose(a, b, rtol=1e-9) for a, b in zip(one, first, strict=True))
        for one in others
    )


def _repeats_order(rank: Trace, step: int) -> bool:
    begun = [one for one in rank.passes if one.first_step < step]
    if not begun or not begun[-1].shuffles:
        return False
    trained = [one for one, after in itertools.pairwise(begun) if after.first_step > one.first_step]
    return any((one.sampler, one.epoch) == (begun[-1].sampler, begun[-1].epoch) for one in trained)


def _times(original: Trace, rank: Trace, step: int) -> float | None:
    """How many times the original's step the rank's is, if it goes the same way; only of an optimizer's first step."""
    optimizer, after = original.steps[step - 1]
    if any(number == optimizer for number, _ in original.steps[: step - 1]):
        return None
    theirs = after - original.beginnings[optimizer]
    ours = rank.steps[step - 1][1] - rank.beginnings[optimizer]
    if not theirs.norm() or not ours.norm():
        return None
    times = float(ours @ theirs / (theirs @ theirs))
    return times if float((ours - times * theirs).norm()) < _NEAR * float(ours.norm()) else None
