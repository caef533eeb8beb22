"""The workers of a loader draw apart on each rank, of the streams of torch, `random` and NumPy.

A `worker_init_fn` that seeds each worker by its number, or a loader whose `generator` has a seed of its own, gives the
workers of all ranks the same random numbers: the samples of one batch would be augmented alike by rank.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any
from zlib import crc32

import torch
from torch.utils.data import IterableDataset, get_worker_info

from distify_runtime.environment import is_alone, rank
from distify_runtime.meeting import by_itself


@by_itself
def seed_workers_apart(worker_init_fn: Callable[[int], Any] | None = None) -> Callable[[int], Any] | None:
    """What is given to a DataLoader as `worker_init_fn`: the script's own, and then random numbers of the rank's own.

    Those of rank 0 stay as they are, so that a world of one is left alone; those of the others follow from what the
    worker has been seeded with. Workers of a stream, of which all ranks read the same, are not seeded anew; nor are
    generators of the script's own.
    """
    return worker_init_fn if is_alone() or rank() == 0 else _Apart(worker_init_fn, rank())


class _Apart:
    """A class, since workers that are spawned are sent it."""

    def __init__(self, inner: Callable[[int], Any] | None, rank: int) -> None:
        self.inner, self.rank = inner, rank

    def __call__(self, worker: int) -> None:
        if self.inner is not None:
            self.inner(worker)
        info = get_worker_info()
        if info is not None and isinstance(info.dataset, IterableDataset):
            return
        torch.manual_seed(self._mixed(torch.get_rng_state().numpy().tobytes()))
        random.seed(self._mixed(repr(random.getstate()).encode()))
        if numpy := sys.modules.get("numpy"):
            _, words, place, *_ = numpy.random.get_state()
            numpy.random.seed(self._mixed(words.tobytes() + bytes(str(place), "ascii")))

    def _mixed(self, state: bytes) -> int:
        return crc32(state, self.rank)
