"""Data sets that are streams: every rank reads all of it and keeps its share."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from distify_runtime.environment import rank, world_size
from distify_runtime.meeting import collective
from distify_runtime.proxy import Proxy
from distify_runtime.randomness import drawn_alike
from distify_runtime.taken import Epochs


class ShardedIterable(Proxy, IterableDataset[Any]):
    """Of each `world_size` samples in a row, one for each rank. `shard_iterable` makes it.

    Every rank, and every worker of it, runs through the same stream in the same order, whatever random numbers it
    draws; so N ranks with batches of B/N see the batches that one process with as many workers sees. A stream that
    does not divide is filled up with its last samples, or with `drop_last` ends before them: all ranks end together.
    """

    _own = frozenset({"epoch", "seed", "drop_last", "_epochs", "_passes", "_rank", "_ranks"})

    def __init__(self, dataset: IterableDataset[Any], drop_last: bool) -> None:
        super().__init__(dataset)
        self.drop_last = drop_last
        self._epochs = Epochs()
        self.seed = self._epochs.seed
        self.epoch = self._epochs.before_any
        self._passes = 0  # of this copy: workers that persist are not told the epoch
        self._rank, self._ranks = rank(), world_size()  # a worker process is no rank of its own

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next pass is drawn for."""
        self.epoch, self._passes = self._epochs.of(epoch), 0
        if hasattr(self._inner, "set_epoch"):
            self._inner.set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        chosen = random.Random(f"{self.seed + self.epoch}/{self._passes}/{worker.id if worker else 0}")
        self._passes += 1
        for samples in drawn_alike(self._inner, chosen.getrandbits(31), self._ranks):
            missing = self._ranks - len(samples)
            if missing and self.drop_last:
                return
            samples += [*itertools.islice(itertools.cycle(samples), missing)]
            yield samples[self._rank]

    def __len__(self) -> int:
        samples = len(self._inner)
        return samples // self._ranks if self.drop_last else -(-samples // self._ranks)


@collective
def shard_iterable(dataset: IterableDataset[Any], drop_last: bool = False) -> IterableDataset[Any]:
    """This rank's share of a stream of samples; `drop_last` as its loader has it.

    Raises TypeError for a stream of something else than `IterableDataset`.
    """
    if not isinstance(dataset, IterableDataset):
        raise TypeError(f"shard_iterable shares out an IterableDataset, no {type(dataset).__name__}")
    return ShardedIterable(dataset, drop_last)
