"""How often each sample was read: parameters and figures do not tell of one that takes another's place by chance."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from torch import Tensor

#: Of each pass over a loader: whether it trains, the data set's size, what was read as numbers of samples, and whether
#: a library cuts off what it has filled up.
Readings = Sequence[tuple[bool, int, Tensor, bool]]

_LEFT_OUT = "every sample must be some rank's: deal out all of them"
_TWICE = "a sampler that fills up the ranks' shares counts samples twice: deal them out with `rt.UnpaddedSampler`"


def first_difference(original: Readings, ranks: Sequence[Readings]) -> tuple[str, str] | None:
    """Of the first pass in which samples are left out, or in an evaluation read once too often: a message and a hint.

    Ranks that each read all of it do no harm; whose data set has another size, numbers it in its own way. In training
    last batches may have been filled up.
    """
    for number, (trains, size, wanted, _) in enumerate(original):
        parts = [one[number][2].tolist() for one in ranks]
        before = Counter(wanted.tolist())
        if any(one[number][1] != size for one in ranks) or all(Counter(part) == before for part in parts):
            continue
        together = Counter(itertools.chain.from_iterable(parts))
        for wrong, hint in ((before - together, _LEFT_OUT), (together - before, _TWICE)):
            may_be_twice = trains or all(one[number][3] for one in ranks)
            if wrong and not (may_be_twice and hint == _TWICE):
                sample = min(wrong)
                where = f"pass {number + 1} over a loader ({'training' if trains else 'evaluation'})"
                got, wanted_of_it = (_times(one[sample]) for one in (together, before))
                return f"{where}: all ranks together read sample {sample} {got}, the original {wanted_of_it}", hint
    return None


def _times(count: int) -> str:
    return {0: "not at all", 1: "once", 2: "twice"}.get(count, f"{count} times")
