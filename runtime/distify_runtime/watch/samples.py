"""What ranks deal out in a pass: each a part of one order, all of it together, and another order each time."""

from __future__ import annotations

import functools
import itertools
import zlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from torch.utils.data import DistributedSampler

from distify_runtime.patching import wrap
from distify_runtime.watch import datasets
from distify_runtime.watch.verdict import of_ranks
from distify_runtime.watch.watching import Watching

#: Of larger data sets, only what stands in so many of equal shares is compared.
_MOST = 2**20

_watching: Watching | None = None
_numbers = itertools.count()


class _Passes:
    """Of one sampler. `number`: alike on all ranks."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.passes = 0
        self.before = 0
        self.steps = 0  # when the last one began


_samplers: WeakKeyDictionary[Any, _Passes] = WeakKeyDictionary()


def watch(watching: Watching) -> None:
    global _watching
    _watching = watching
    _notice_torchs()


def dealt_from(sampler: Any, order: Sequence[int], shuffles: bool) -> None:
    """At the head of a pass: the order of which this rank deals out its share, whose length is that of the data set."""
    if _watching is None:
        return
    _compare(sampler, array("q", order), [len(order)], shuffles, _one_order)


@functools.cache
def _notice_torchs() -> None:
    """torch's own sampler deals out the shares of one process by itself: what it gives is looked at."""

    def iterate(original: Any, self: Any) -> Iterator[Any]:
        given: Iterator[Any] = original(self)
        if _watching is None or self.num_replicas == 1:
            return given
        indices, samples = array("q", given), len(self.dataset)
        _compare(self, indices, [samples, _marks(indices, samples)], self.shuffle, _parts_of_one)
        return iter(indices)

    wrap(DistributedSampler, "__iter__", iterate)


def _compare(sampler: Any, indices: array[int], what: list[Any], shuffles: bool, judge: Any) -> None:
    watching = _watching
    assert watching is not None
    passes = _samplers.setdefault(sampler, _Passes())
    passes.passes += 1
    digest = zlib.crc32(indices.tobytes())
    trained = watching.steps > passes.steps  # a look at a first batch is no pass
    again = shuffles and trained and digest == passes.before and len(indices) > 9
    passes.before, passes.steps = digest, watching.steps
    topic = f"samples/{passes.number}/{passes.passes}"
    name, when = type(sampler).__name__, f"pass {passes.passes}"

    def judged(everyone: list[Any]) -> str:
        if all(same for same, *_ in everyone):
            return f"{name} deals out {when} in the order of the pass before: sampler.set_epoch(epoch) is not called"
        said: str = judge([one for _, *one in everyone])
        return said and f"{name}, {when}: {said}"

    watching.exchange(topic, [again, digest, *what], judged)
    if passes.passes == 1 and (told := datasets.fingerprint(getattr(sampler, "dataset", None))):
        watching.exchange(f"data/{passes.number}", told, datasets.judged)


def _one_order(everyone: list[Any]) -> str:
    others = [rank for rank, one in enumerate(everyone) if one != everyone[0]]
    if not others:
        return ""
    lengths = sorted({samples for _, samples in everyone})
    why = f", of data sets of {' and '.join(map(str, lengths))} samples" if len(lengths) > 1 else ""
    return f"{of_ranks(others)} and rank 0 deal out different orders{why}: some samples count twice, others never"


def _parts_of_one(everyone: list[Any]) -> str:
    samples = everyone[0][1]
    if any(one[1] != samples for one in everyone):
        return "the ranks hold data sets of different sizes: " + ", ".join(str(one[1]) for one in everyone)
    marks = [int(one[2], 16) for one in everyone]
    union = functools.reduce(int.__or__, marks)
    twice = sum(map(int.bit_count, marks)) - union.bit_count()
    allowed = len(everyone)  # a pass is filled up to a multiple of the ranks
    if twice > allowed:
        return f"{twice} of {samples} samples are dealt out by more than one rank: are they shuffled from one seed?"
    missing = -(-samples // _share(samples)) - union.bit_count()
    if missing > allowed:
        return f"{missing} of {samples} samples are dealt out by no rank"
    return ""


def _share(samples: int) -> int:
    return -(-samples // _MOST)


def _marks(indices: array[int], samples: int) -> str:
    """A bit of each sample that is dealt out, in a number of base 16."""
    share = _share(samples)
    marks = bytearray(samples // share // 8 + 1)
    for index in indices:
        if index % share == 0:
            one = index // share
            marks[one >> 3] |= 1 << (one & 7)
    return marks[::-1].hex()
