"""The order of the samples: that of the n-th training pass over a sampler follows from n, in each process.

So one process and N ranks see the same samples without knowing of each other. Nothing else about the orders is
changed: a sampler with epochs draws a new order only where it is told a new one, a rank has the share that its sampler
deals out to it, and what a sampler of the script's own chooses, it chooses by itself, from random numbers that are
seeded by n.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler
from torch.utils.data._utils import fetch
from torch.utils.data.dataloader import _DatasetKind
from torch.utils.data.distributed import DistributedSampler

from distify_runtime import iterables, training_samplers
from distify_runtime.iterables import ShardedIterable
from distify_runtime.patching import wrap
from distify_runtime.proxy import Proxy
from distify_runtime.randomness import drawn_alike
from distify_runtime.trace.moment import NOW

#: Their order is fixed by itself, unless a class made of them draws by itself.
_KNOWN = (SequentialSampler, RandomSampler, DistributedSampler)

#: How many numbers of a sampler that draws with replacement are drawn at once.
_BLOCK = 1024


class _Passes:
    """Counts the training passes over one sampler: those after which a step was taken before the next one began.

    A look at a first batch, or an evaluation on the training data, does not count.
    """

    def __init__(self, owner: object) -> None:
        self.owner = owner  # kept alive, so that identities are not used twice
        self.number = 0
        self.steps = NOW.steps
        self.by_key: dict[object, int] = {}
        self.dealt: int | None = None  # the number under which the runtime deals it out at present

    def begin(self) -> int:
        if self.dealt is not None:
            return self.dealt
        self.number += NOW.steps > self.steps
        self.steps = NOW.steps
        return self.number

    def begin_epoch(self, epoch: object) -> int:
        """An epoch that was seen before has the order that it had."""
        number = self.begin()
        return self.by_key.setdefault(epoch, number)


_passes: dict[int, _Passes] = {}


def _passes_of(owner: object) -> _Passes:
    return _passes.setdefault(id(owner), _Passes(owner))


def fix_order() -> None:
    wrap(RandomSampler, "__iter__", _random)
    wrap(DistributedSampler, "__iter__", _distributed)
    DataLoader._index_sampler = property(_chosen)  # type: ignore[assignment, method-assign]
    wrap(fetch._IterableDatasetFetcher, "__init__", _stream)
    for module in (training_samplers, iterables):
        wrap(module, "drawn_alike", _dealt_out)


def _random(original: Any, self: RandomSampler) -> Iterator[int]:
    """The order of DistributedSampler, with the draw from the global stream that RandomSampler makes."""
    if self.generator is None:
        torch.empty((), dtype=torch.int64).random_(generator=torch.default_generator)
    generator = torch.Generator()
    generator.manual_seed(_passes_of(self).begin())
    size, left = len(cast(Any, self.data_source)), self.num_samples
    while left > 0:
        if self.replacement:
            order = torch.randint(size, (_BLOCK,), generator=generator).tolist()
        else:
            order = torch.randperm(size, generator=generator).tolist()
        yield from order[:left]
        left -= len(order)


def _distributed(original: Any, self: DistributedSampler[Any]) -> Iterator[Any]:
    seed, epoch = self.seed, self.epoch
    self.seed, self.epoch = 0, _passes_of(self).begin_epoch(epoch)
    try:
        return iter(list(original(self)))
    finally:
        self.seed, self.epoch = seed, epoch


class _Alike(Proxy):
    """A sampler of the script's own, or a stream: it draws what the runtime would have it draw."""

    _own = frozenset({"_owner"})

    def __init__(self, inner: Any, owner: object) -> None:
        super().__init__(inner)
        self._owner = owner

    def __iter__(self) -> Iterator[Any]:
        number = _passes_of(self._owner).begin()
        return _as_data(itertools.chain.from_iterable(drawn_alike(self._inner, number, 1)))

    def __len__(self) -> int:
        return len(self._inner)


def _chosen(loader: DataLoader[Any]) -> Any:
    """`DataLoader._index_sampler`: what makes the batches, or where there are none chooses the samples."""
    chosen: Any = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    inner = chosen.sampler if type(chosen) is BatchSampler else chosen
    of_map = loader._dataset_kind == _DatasetKind.Map
    return _Alike(chosen, inner) if of_map and _is_own(inner) else chosen


def _is_own(sampler: object) -> bool:
    """Whether it chooses by itself: the runtime's do not, and torch's have orders that are fixed already."""
    known = any(type(sampler).__iter__ is one.__iter__ for one in _KNOWN if isinstance(sampler, one))
    return not known and not type(sampler).__module__.startswith("distify_runtime.")


def _stream(original: Any, self: Any, dataset: Any, *args: Any) -> None:
    original(self, dataset if isinstance(dataset, ShardedIterable) else _Alike(dataset, dataset), *args)


def _dealt_out(original: Any, items: Any, seed: int, at_once: int) -> Iterator[Any]:
    """The runtime's own draw; `seed` follows from the epoch."""
    passes = _passes_of(items)
    passes.dealt = None
    passes.dealt = passes.begin_epoch(seed)
    return _as_data(original(items, passes.dealt, at_once))


def _as_data(items: Iterator[Any]) -> Iterator[Any]:
    """The items, drawn from the random numbers that are there: none of what is drawn for them is noise of a batch."""
    while True:
        outside, NOW.in_dataset = NOW.in_dataset, True
        try:
            item = next(items)
        except StopIteration:
            return
        finally:
            NOW.in_dataset = outside
        yield item
