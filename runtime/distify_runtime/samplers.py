"""Samplers for evaluation, where every sample counts exactly once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sized
from typing import Any

from torch.utils.data import DataLoader, Sampler

from distify_runtime.environment import rank, world_size
from distify_runtime.meeting import collective
from distify_runtime.training_samplers import SharedOrder


@collective
class UnpaddedSampler(Sampler[int]):
    """Deals out a dataset's indices in order, or those of a sampler, each to one rank.

    Unlike `DistributedSampler(shuffle=False)` it repeats no sample, so that ranks may differ by one sample. It goes by
    what the dataset holds when a pass begins.
    """

    def __init__(self, dataset: Sized, sampler: Iterable[int] | None = None) -> None:
        self.dataset = dataset
        self._given = None if sampler is None else SharedOrder(sampler)

    @property
    def order(self) -> range | SharedOrder:
        """The indices of all ranks."""
        return range(len(self.dataset)) if self._given is None else self._given

    def __iter__(self) -> Iterator[int]:
        return itertools.islice(self.order, rank(), None, world_size())

    def __len__(self) -> int:
        return len(range(rank(), len(self.order), world_size()))


@collective
class ShardedBatchSampler(Sampler[list[int]]):
    """Cuts a dataset into the batches that one process would see; each rank gets its share of every batch.

    Shares are contiguous and differ by at most one sample. All ranks see the same number of batches: a rank
    for which a short batch holds no sample loads the batch's first one, and `gather_batch` drops it again.
    """

    def __init__(self, dataset: Sized, batch_size: int, drop_last: bool = False) -> None:
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self._batches: _Batches | None = None

    def __iter__(self) -> Iterator[list[int]]:
        self._batches = _Batches(self)
        return self._batches

    def __len__(self) -> int:
        samples = len(self.dataset)
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def shares(self, batch: int) -> list[range]:
        """Each rank's dataset indices in the batch with this number; empty for ranks without a share."""
        start = batch * self.batch_size
        samples = min(self.batch_size, len(self.dataset) - start)
        ranks = world_size()
        smaller, ranks_with_one_more = divmod(samples, ranks)
        shares = []
        for index in range(ranks):
            stop = start + smaller + (index < ranks_with_one_more)
            shares.append(range(start, stop))
            start = stop
        return shares

    def current_batch(self, loader: DataLoader[Any]) -> int:
        """The number of the batch that `loader` has handed out last.

        A loader draws one batch from its sampler for each that it hands out, its workers' prefetch ahead.
        Raises RuntimeError outside a loop that takes its batches from the loader one at a time.
        """
        ahead = loader.num_workers * (loader.prefetch_factor or 0)
        batch = self._batches.drawn - ahead - 1 if self._batches else -1
        if not 0 <= batch < len(self):
            raise RuntimeError(
                "gather_batch must be called inside a loop that takes one batch at a time from its loader"
            )
        return batch


class _Batches(Iterator[list[int]]):
    """One pass over the batches. Counts the draws, also those after the last batch."""

    def __init__(self, sampler: ShardedBatchSampler) -> None:
        self._sampler = sampler
        self.drawn = 0

    def __next__(self) -> list[int]:
        batch = self.drawn
        self.drawn += 1
        if batch >= len(self._sampler):
            raise StopIteration
        shares = self._sampler.shares(batch)
        return list(shares[rank()] or shares[0][:1])
