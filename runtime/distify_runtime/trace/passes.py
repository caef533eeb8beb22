"""Loaders that fetch in the process itself, passes that are cut short, and last batches that ranks can share evenly."""

from __future__ import annotations

import itertools
import multiprocessing
import operator
import sys
import zlib
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, get_worker_info
from torch.utils.data._utils import fetch
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

from distify_runtime.environment import rank
from distify_runtime.patching import wrap
from distify_runtime.proxy import Proxy
from distify_runtime.randomness import host_state, seed_host, set_host_state
from distify_runtime.samplers import ShardedBatchSampler
from distify_runtime.trace.moment import NOW

#: What a loader is told about its workers; the position of `num_workers` behind the dataset.
_WORKERS = ("persistent_workers", "prefetch_factor", "multiprocessing_context", "worker_init_fn", "timeout")
_NUM_WORKERS = 4


@dataclass
class Filling:
    """`ranks`: as how many the last batches of training are filled up for; `filled`: the sizes that those had."""

    ranks: int = 1
    filled: list[int] = field(default_factory=list)


@dataclass
class Reading:
    """What this process has read in one pass over a loader: the numbers of samples, as often as each was read."""

    trains: bool
    size: int  # of the data set; -1 where it does not tell
    samples: list[int] = field(default_factory=list)
    cut: bool = False  # figures of it are made without what ranks were filled up with


@dataclass
class _Pass:
    steps: int  # before it
    batches: int = 0
    reading: Reading | None = None
    largest: int = 0
    ended: bool = False


def workers(most: int) -> None:
    """Loaders that ask for worker processes get so many; with none, nothing depends on a scheduler."""

    def init(original: Any, self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        given = list(args)
        positional = len(given) > _NUM_WORKERS
        asked = given[_NUM_WORKERS] if positional else kwargs.get("num_workers", 0)
        count = most if asked else 0
        NOW.workers |= bool(asked)
        if positional:
            given[_NUM_WORKERS] = count
        else:
            kwargs["num_workers"] = count
        if not count:
            kwargs = {name: value for name, value in kwargs.items() if name not in _WORKERS}
        elif "fork" in multiprocessing.get_all_start_methods():
            kwargs["multiprocessing_context"] = "fork"  # they are watched as the process itself is
        original(self, dataset, *given, **kwargs)

    def create(original: Any, *args: Any, **kwargs: Any) -> Any:
        if get_worker_info() is not None:
            NOW.in_training = True  # no batch has come by in this process, and what it draws is for batches
        return original(*args, **kwargs)

    wrap(DataLoader, "__init__", init)
    wrap(_DatasetKind, "create_fetcher", create)


def fix_augmentation() -> None:
    """What is drawn for a sample depends on its index alone, whoever fetches it and when."""

    def fetch_samples(original: Any, self: Any, index: Any) -> Any:
        indices = [*index] if self.auto_collation else [index]
        state = host_state()  # once for a batch: that of NumPy takes longer than small samples do
        outside, NOW.in_dataset = NOW.in_dataset, True
        try:
            samples = [_sample(self.dataset, one, looked_at=number == 0) for number, one in enumerate(indices)]
        finally:
            NOW.in_dataset = outside
            set_host_state(state)
        return self.collate_fn(samples if self.auto_collation else samples[0])

    wrap(fetch._MapDatasetFetcher, "fetch", fetch_samples)


def _sample(dataset: Any, index: Any, looked_at: bool) -> Any:
    """looked_at: whether it draws, as long as none is known to."""
    number = _one_number(index)
    seed_host(number % 2**31 if number is not None else sum(repr(index).encode()))
    before = host_state() if looked_at and not NOW.drawn else None
    sample = dataset[index]
    NOW.drawn = NOW.drawn or (before is not None and not _same_state(before, host_state()))
    return sample


def _same_state(one: dict[str, Any], other: dict[str, Any]) -> bool:
    numpy = all(
        a is b or (a is not None and b is not None and a[2] == b[2] and (a[1] == b[1]).all())
        for a, b in [(one["numpy"], other["numpy"])]
    )
    return one["torch"].equal(other["torch"]) and one["python"] == other["python"] and numpy


def watch_passes(most_steps: int, short_after: int, filling: Filling, readings: list[Reading]) -> None:
    """With `most_steps`, a pass ends early: after all but one of these steps comes its last batch.

    With `short_after`, it ends after its first step as soon as so many were taken in all.

    What is read in each pass is added to `readings`.

    In a process alone that stands for `filling.ranks`, a last batch of training that they cannot share evenly is filled
    up as the runtime does it: with its own last samples, or where a sampler makes the batches, with its first.
    """

    def init(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self._distify_pass = _Pass(NOW.steps)

    def next_index(original: Any, self: Any) -> Any:
        one: _Pass = self._distify_pass
        steps = NOW.steps - one.steps
        most = 1 if 0 < short_after <= NOW.steps else most_steps
        if most and _size(self._index_sampler) > _MOST_BATCHES:
            most = 0
        if one.ended or (most and steps >= most):
            raise StopIteration
        if most and steps >= most - 1 and steps:
            one.ended = _skip_to_last(self, one)
        index = original(self)
        one.batches += 1
        NOW.in_training = True
        if self._dataset_kind != _DatasetKind.Map:
            return index
        if self._auto_collation:
            index = [*index]  # a batch sampler may give a tensor, an array, a tuple
        if filling.ranks > 1 and isinstance(index, list):
            # workers are told of batches before a step, and of a pass of one batch there is none before it
            ahead = (self._num_workers > 0 or one.batches == 1) and torch.is_grad_enabled()
            one.largest = max(one.largest, _size_of(self._index_sampler))
            index = _filled(index, one, steps > 0 or ahead, filling, own=_makes_batches(self._index_sampler))
        if one.reading is None:
            one.reading = Reading(torch.is_grad_enabled(), _size(self._dataset))
            readings.append(one.reading)
            _watch_cuts(readings)
        if not _stands_in(self._index_sampler, one.batches - 1):
            one.reading.samples += map(_number, index if isinstance(index, (list, tuple)) else [index])
        return index

    wrap(_BaseDataLoaderIter, "__init__", init)
    wrap(_BaseDataLoaderIter, "_next_index", next_index)


#: Libraries that are imported already when a pass begins.
_watched: set[ModuleType] = set()


def _watch_cuts(readings: list[Reading]) -> None:
    """Accelerate fills up the ranks' shares, and cuts that off again where figures are gathered."""
    library = sys.modules.get("accelerate")
    if library is None or library in _watched:
        return
    _watched.add(library)

    def gather_for_metrics(original: Any, *args: Any, **kwargs: Any) -> Any:
        readings[-1].cut = True
        return original(*args, **kwargs)

    wrap(library.Accelerator, "gather_for_metrics", gather_for_metrics)


def _stands_in(sampler: Any, batch: int) -> bool:
    """Whether what a rank reads is no part of a batch, which has too few samples for all ranks."""
    return isinstance(sampler, ShardedBatchSampler) and not sampler.shares(batch)[rank()]


def _size(of: Any) -> int:
    """Its length; -1: it has none, or does not say."""
    try:
        return len(of)
    except (TypeError, NotImplementedError):
        return -1


def _number(index: Any) -> int:
    """The index of a sample; of one that is no number, a number that stands for it in every process."""
    number = _one_number(index)
    return number if number is not None else -1 - zlib.crc32(repr(index).encode())


def _one_number(index: Any) -> int | None:
    """An index as a number. A tensor of several has `__index__`, too, and raises."""
    try:
        return operator.index(index)
    except TypeError:
        return None


def _makes_batches(sampler: Any) -> bool:
    """Whether the script has a batch sampler of its own."""
    inner = sampler.wrapped if isinstance(sampler, Proxy) else sampler
    return type(inner) is not BatchSampler


#: A pass of more batches than these has no end that a run comes to: an endless sampler says `2**31`.
_MOST_BATCHES = 100_000


def _skip_to_last(loader: Any, one: _Pass) -> bool:
    """Draws all batches but the last one; False where it cannot be known which one that is."""
    left = _size(loader._index_sampler) - one.batches
    if loader._dataset_kind != _DatasetKind.Map or left < 1:
        return False
    for _ in itertools.islice(loader._sampler_iter, left - 1):
        pass
    return True


def _size_of(sampler: Any) -> int:
    """The number of samples that a batch has, but for the last one; 0, where each may have another."""
    size = getattr(sampler, "batch_size", None)
    return size if isinstance(size, int) else 0


def _filled(batch: list[Any], one: _Pass, trains: bool, filling: Filling, own: bool) -> list[Any]:
    left = len(batch) % filling.ranks
    ragged = own or len(batch) < one.largest
    one.largest = max(one.largest, len(batch))
    if not (left and ragged and trains):
        return batch
    filling.filled.append(len(batch))
    again = itertools.cycle(batch if own else batch[-left:])
    return [*batch, *itertools.islice(again, filling.ranks - left)]
