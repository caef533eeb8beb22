"""What is loaded for one batch, in a worker or in the process itself: all of it, or a rank's share of its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils.data import Dataset, get_worker_info
from torch.utils.data._utils import pin_memory as pinning
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from distify_runtime import accelerators
from distify_runtime.memory import memory_of
from distify_runtime.randomness import host_state, seed_host
from distify_runtime.shared.packing import packed
from distify_runtime.shared.streams import kept


class Task(list[Any]):
    """One batch to load: the indices of its samples, as any batch sampler gives them, and how this rank loads them."""

    def __init__(
        self, number: int, indices: Any, own: slice | None = None, checks: bool = False, seed: int | None = None
    ) -> None:
        """
        number: over all passes. indices: of the whole batch, as the sampler gives them. own: this rank's share of
        them; None: all. checks: whether the share, loaded once more by itself, is what it is in the whole batch.
        seed: each sample draws from random numbers that follow from this and its place.
        """
        super().__init__(indices if isinstance(indices, (list, tuple)) else [])
        self.number, self.indices, self.own, self.checks, self.seed = number, indices, own, checks, seed

    @property
    def is_share(self) -> bool:
        return self.own is not None and not self.checks


@dataclass
class Loaded:
    """`batch`: as the loader would give it; of a share, its samples as one row of bytes."""

    batch: Any
    number: int = -1  # of its task
    drew: bool = False
    same: bool = True
    is_share: bool = False

    def pin_memory(self) -> Loaded:  # torch's loaders look for a method of this name
        return self if self.is_share else replace(self, batch=pinned(self.batch))


class Samples(Dataset[Any]):
    """The data set of a loader, whose items are batches."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset, self.collate = dataset, collate
        self._fetcher = _MapDatasetFetcher(dataset, auto_collation=True, collate_fn=list, drop_last=False)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, task: Task) -> Loaded:
        in_process = get_worker_info() is None
        if in_process and (task.is_share or task.seed is not None):
            with kept():  # the ranks' streams stay alike, however much each draws
                return self._loaded(task)
        return self._loaded(task)

    def _loaded(self, task: Task) -> Loaded:
        with drawing() as drawn:
            if task.is_share:
                assert task.own is not None
                return Loaded(packed(self._some(task, task.own)), task.number, drawn(), is_share=True)
            samples = self._some(task, None)
            before = packed(samples[task.own]) if task.checks and task.own is not None else None
            batch = collated(self.collate, samples, task)
            drew = drawn()
        if before is None or task.own is None:
            return Loaded(batch, task.number, drew)
        with kept() if get_worker_info() is None else drawing():
            again = packed(self._some(task, task.own))
        return Loaded(batch, task.number, drew, torch.equal(before, again))

    def _some(self, task: Task, part: slice | None) -> list[Any]:
        indices = task.indices if part is None else task.indices[part]
        if task.seed is None:
            return self._fetched(indices)
        found = []
        for place, index in enumerate(indices, 0 if part is None else part.start):
            _seed(task.seed + place)
            found += self._fetched([index])
        return found

    def _fetched(self, indices: Any) -> list[Any]:
        """By what torch fetches samples with: whoever watches that, or has changed it, is heeded."""
        fetch: Callable[[Any], list[Any]] = self._fetcher.fetch  # untyped in torch
        return fetch(indices)


def collated(collate: Callable[[list[Any]], Any], samples: list[Any], task: Task) -> Any:
    if task.seed is not None:
        _seed(task.seed + len(task.indices))
    return collate(samples)


def pinned(batch: Any) -> Any:
    pin: Callable[[Any], Any] = pinning.pin_memory
    return pin(batch)


def _seed(seed: int) -> None:
    seed_host(seed)  # `torch.manual_seed` takes milliseconds to remember what it is to do on a GPU later
    if _has_gpu_stream():
        accelerators.seed(seed)


@contextmanager
def drawing() -> Iterator[Callable[[], bool]]:
    """Gives what tells whether anything was drawn since."""
    before = _position()
    yield lambda: _position() != before


def _has_gpu_stream() -> bool:
    """A worker must not touch a GPU."""
    return get_worker_info() is None and accelerators.is_in_use()


def _position() -> tuple[Any, ...]:
    """Changes when something is drawn from a stream that all share."""
    state = host_state()
    numpy = state["numpy"]
    found = [bytes(memory_of(state["torch"])), state["python"], numpy and (numpy[1].tobytes(), *numpy[2:])]
    if _has_gpu_stream() and (own := accelerators.random_state()) is not None:
        found.append(bytes(memory_of(own)))
    return tuple(found)
