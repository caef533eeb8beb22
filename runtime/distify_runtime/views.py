"""Other views of a DataLoader: the same dataset, collate function and workers, other samples."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any, TypeVar, cast

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
)

from distify_runtime.batch import per_rank_batch_size
from distify_runtime.environment import rank, world_size
from distify_runtime.output import stop
from distify_runtime.randomness import common_seed
from distify_runtime.samplers import ShardedBatchSampler, UnpaddedSampler

Loader = TypeVar("Loader", bound=DataLoader[Any])


def training_loader(loader: Loader) -> Loader:
    """This rank's share of a loader of all samples: reshuffled if it shuffles, the global batch as it was.

    Raises SystemExit where the loader's samples are chosen by a sampler of its own.
    """
    shuffle = _shuffles(loader)
    sampler: DistributedSampler[Any] = DistributedSampler(
        cast(Any, loader.dataset),
        num_replicas=world_size(),
        rank=rank(),
        shuffle=shuffle,
        seed=common_seed(),
        drop_last=loader.drop_last,
    )
    assert loader.batch_size is not None
    return _view(loader, sampler, per_rank_batch_size(loader.batch_size))


def evaluation_loader(loader: Loader) -> Loader:
    """This rank's share of the samples without padding: none is left out, none seen twice.

    A loader that is dealt out so already comes back as it is.
    Raises SystemExit where the loader's samples are chosen by a sampler of its own.
    """
    if isinstance(loader.sampler, UnpaddedSampler):
        return loader
    if not isinstance(loader.sampler, DistributedSampler):
        _shuffles(loader)
    return _view(loader, UnpaddedSampler(cast(Sized, loader.dataset)), loader.batch_size)


def whole_loader(loader: Loader) -> Loader:
    """All samples, in the batches that one process would see; shuffled alike on all ranks, if at all.

    A loader whose samples are chosen by a sampler of its own comes back as it is.
    """
    sampler, batches = loader.sampler, loader.batch_sampler
    dataset = cast(Any, loader.dataset)
    if isinstance(batches, ShardedBatchSampler):
        return _view(loader, SequentialSampler(dataset), batches.batch_size, batches.drop_last)
    if isinstance(sampler, UnpaddedSampler):
        return _view(loader, SequentialSampler(dataset), loader.batch_size)
    if isinstance(sampler, DistributedSampler):
        size = (loader.batch_size or 1) * sampler.num_replicas
        return _view(loader, _whole(dataset, sampler.shuffle, sampler.seed, sampler.epoch), size)
    if type(sampler) is RandomSampler and type(batches) is BatchSampler and not sampler.replacement:
        return _view(loader, _whole(dataset, True, common_seed(), 0), loader.batch_size)
    return loader


class _WholeSampler(DistributedSampler[Any]):
    """All samples on each rank. Draws from the global stream as a RandomSampler does, for what is drawn after it."""

    def __iter__(self) -> Iterator[Any]:
        if self.shuffle:
            torch.empty((), dtype=torch.int64).random_()
        return super().__iter__()


def _whole(dataset: Any, shuffle: bool, seed: int, epoch: int) -> _WholeSampler:
    sampler = _WholeSampler(dataset, num_replicas=1, rank=0, shuffle=shuffle, seed=seed)
    sampler.set_epoch(epoch)
    return sampler


def set_epoch(loader: DataLoader[Any], epoch: int | None = None) -> None:
    """Reshuffles a loader that is sharded for training; leaves any other alone. Without `epoch`, the next one."""
    if isinstance(loader.sampler, DistributedSampler):
        loader.sampler.set_epoch(loader.sampler.epoch + 1 if epoch is None else epoch)


def _shuffles(loader: DataLoader[Any]) -> bool:
    if isinstance(loader.dataset, IterableDataset):
        stop(f"{type(loader.dataset).__name__} is an IterableDataset: it has to share out its samples itself")
    if loader.batch_size is None or type(loader.sampler) not in (RandomSampler, SequentialSampler):
        stop(f"the loader's {type(loader.sampler).__name__} chooses its samples itself: make it draw a rank's share")
    return isinstance(loader.sampler, RandomSampler)


def _view(loader: Loader, sampler: Sampler[int], batch_size: int | None, drop_last: bool | None = None) -> Loader:
    """A copy with other samples. It keeps no workers between passes: it is made anew for each."""
    view = object.__new__(type(loader))
    last = loader.drop_last if drop_last is None else drop_last
    assert batch_size is not None
    view.__dict__.update(loader.__dict__)
    view.__dict__.update(  # a DataLoader forbids to set these
        sampler=sampler,
        batch_sampler=BatchSampler(sampler, batch_size, last),
        batch_size=batch_size,
        drop_last=last,
        persistent_workers=False,
        _iterator=None,
    )
    return view
