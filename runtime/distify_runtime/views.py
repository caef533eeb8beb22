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
    SequentialSampler,
)

from distify_runtime.batch import keeps_batch_size, loader_batch_size, say_per_rank, whole_batch_size
from distify_runtime.environment import world_size
from distify_runtime.iterables import ShardedIterable, shard_iterable
from distify_runtime.learning_rate import pass_begins
from distify_runtime.meeting import by_itself, collective
from distify_runtime.output import stop
from distify_runtime.randomness import common_seed, seed_from_here
from distify_runtime.samplers import ShardedBatchSampler, UnpaddedSampler
from distify_runtime.taken import steps_taken
from distify_runtime.training_samplers import (
    DistributedBatchSampler,
    DistributedSamplerWrapper,
    SharedOrder,
    TrainingSampler,
)

Loader = TypeVar("Loader", bound=DataLoader[Any])


@by_itself
def training_loader(loader: Loader) -> Loader:
    """This rank's share of a loader of all samples: reshuffled if it shuffles, the global batch as it was.

    What chooses its samples (a sampler, a batch sampler, the data set itself) goes on choosing.
    Raises SystemExit where the data set makes the batches.
    """
    if isinstance(loader.dataset, IterableDataset):
        size = loader_batch_size(_batch_size(loader))
        return _view(loader, loader.sampler, size, dataset=shard_iterable(loader.dataset, loader.drop_last))
    if _has_own_batches(loader):
        return _like(loader, batch_sampler=DistributedBatchSampler(cast(Any, loader.batch_sampler)))
    sampler: DistributedSamplerWrapper | TrainingSampler
    if _has_own_sampler(loader):
        sampler = DistributedSamplerWrapper(loader.sampler, loader.drop_last)
    else:
        shuffle = isinstance(loader.sampler, RandomSampler)
        sampler = TrainingSampler(cast(Sized, loader.dataset), shuffle, loader.drop_last, loader.generator)
    return _view(loader, sampler, loader_batch_size(_batch_size(loader)))


@by_itself
def evaluation_loader(loader: Loader) -> Loader:
    """This rank's share of the samples without padding: none is left out, none seen twice.

    A loader that is dealt out so already comes back as it is.
    Raises SystemExit where the data set, or a batch sampler, makes the batches.
    """
    sampler, dataset = loader.sampler, cast(Sized, loader.dataset)
    if isinstance(sampler, UnpaddedSampler):
        return loader
    if isinstance(loader.dataset, IterableDataset):
        stop(f"{type(loader.dataset).__name__} is an IterableDataset: it has to share out its samples itself")
    if isinstance(loader.batch_sampler, DistributedBatchSampler) or _has_own_batches(loader):
        stop("the loader's batch_sampler chooses its batches itself: make it draw this rank's share of them")
    if isinstance(sampler, DistributedSamplerWrapper):
        return _view(loader, UnpaddedSampler(dataset, sampler.wrapped), _batch_size(loader))
    own = None if isinstance(sampler, DistributedSampler) or not _has_own_sampler(loader) else sampler
    return _view(loader, UnpaddedSampler(dataset, own), _batch_size(loader))


@by_itself
def whole_loader(loader: Loader) -> Loader:
    """All samples, in the batches that one process would see; shuffled alike on all ranks, if at all.

    What a sampler of the script's own chooses, it chooses alike on all ranks; a stream comes back as it is.
    """
    if not isinstance(loader, DataLoader):
        return loader.whole() if hasattr(loader, "whole") else loader  # an iterator of torchtext
    sampler, batches = loader.sampler, loader.batch_sampler
    dataset = cast(Any, loader.dataset)
    if isinstance(dataset, ShardedIterable):
        return _view(loader, sampler, whole_batch_size(_batch_size(loader)), dataset=dataset.wrapped)
    if isinstance(batches, DistributedBatchSampler):
        return _like(loader, batch_sampler=SharedOrder(batches.wrapped))
    if isinstance(batches, ShardedBatchSampler):
        return _view(loader, SequentialSampler(dataset), batches.batch_size, batches.drop_last)
    if isinstance(sampler, UnpaddedSampler):
        return _view(loader, sampler.order, loader.batch_size)
    if isinstance(sampler, DistributedSamplerWrapper):
        return _view(loader, SharedOrder(sampler.wrapped), whole_batch_size(_batch_size(loader)))
    if isinstance(sampler, DistributedSampler):
        ranks = world_size() if isinstance(sampler, TrainingSampler) else sampler.num_replicas
        size = (loader.batch_size or 1) * (1 if keeps_batch_size() else ranks)
        if isinstance(sampler, TrainingSampler) and sampler.drawn is not None:
            return _view(loader, sampler.drawn, size)
        return _view(loader, _whole(dataset, sampler.shuffle, sampler.seed, sampler.epoch), size)
    if isinstance(dataset, IterableDataset) or batches is None:
        return loader
    if _has_own_batches(loader):
        return _like(loader, batch_sampler=SharedOrder(batches))
    if _has_own_sampler(loader):
        return _view(loader, SharedOrder(sampler), loader.batch_size)
    if type(sampler) is RandomSampler and type(batches) is BatchSampler and not sampler.replacement:
        return _view(loader, _FreshSampler(dataset), loader.batch_size)
    return loader


class _WholeSampler(DistributedSampler[Any]):
    """All samples on each rank. Draws from the global stream as a RandomSampler does, for what is drawn after it."""

    def __iter__(self) -> Iterator[Any]:
        if self.shuffle:
            torch.empty((), dtype=torch.int64, device="cpu").random_(generator=torch.default_generator)
        with torch.device("cpu"):  # torch's own draws on the default device, from a generator of the CPU's
            return super().__iter__()


class _FreshSampler(_WholeSampler):
    """In another order once steps were taken, as whoever stops after some batches means it."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset, num_replicas=1, rank=0, shuffle=True, seed=common_seed())
        steps_taken()

    def __iter__(self) -> Iterator[Any]:
        self.set_epoch(steps_taken())
        return super().__iter__()


#: One process draws an order of its own for each pass: `drop_last` leaves out others than the training pass did.
_BESIDE_TRAINING = 982_451_653


def _whole(dataset: Any, shuffle: bool, seed: int, epoch: int) -> _WholeSampler:
    sampler = _WholeSampler(dataset, num_replicas=1, rank=0, shuffle=shuffle, seed=seed + _BESIDE_TRAINING)
    sampler.set_epoch(epoch)
    return sampler


@by_itself
def set_epoch(loader: DataLoader[Any], epoch: int) -> None:
    """The order of this epoch for the next pass of a loader that is sharded for training; leaves any other alone."""
    for chooser in _choosers(loader):
        chooser.set_epoch(epoch)
        if keeps_batch_size():
            _look_at_length(loader)


@collective
def reshuffle(loader: DataLoader[Any]) -> None:
    """A new order for the next pass of a loader that is sharded for training; leaves any other alone.

    It follows from where rank 0's random numbers are, as the order of one process does: a run that is resumed with the
    state that they had goes on with the orders that it would have had. Rank 0 waits for nobody.
    """
    if _choosers(loader):
        set_epoch(loader, seed_from_here() // 2)  # half of what seeds may be: the script's own sampler may add one


def _choosers(loader: DataLoader[Any]) -> list[Any]:
    """What deals out a loader's samples over the ranks, if anything does."""
    kinds = (ShardedIterable, DistributedBatchSampler, DistributedSamplerWrapper, DistributedSampler)
    return [one for one in (loader.dataset, loader.batch_sampler, loader.sampler) if isinstance(one, kinds)][:1]


def _look_at_length(loader: DataLoader[Any]) -> None:
    """What a pass over a loader that keeps its batch size says of the run. Raises SystemExit where it has no batch."""
    try:
        batches = len(loader)
    except TypeError:  # of a stream nobody knows
        batches = 0
    else:
        if not batches:
            stop(
                f"the loader has no batch: its data do not make one of {loader.batch_size} for each of {world_size()} "
                "ranks: use a smaller batch size, or fewer ranks"
            )
    pass_begins(batches)
    if loader.batch_size is not None:
        say_per_rank(loader.batch_size)


def _has_own_batches(loader: DataLoader[Any]) -> bool:
    return loader.batch_size is None and loader.batch_sampler is not None


@by_itself
def is_sharded(loader: DataLoader[Any]) -> bool:
    """Whether each rank sees its own share of a loader's samples."""
    shares = (DistributedSampler, UnpaddedSampler, DistributedSamplerWrapper)
    batches = (ShardedBatchSampler, DistributedBatchSampler)
    if isinstance(loader.dataset, ShardedIterable):
        return True
    return isinstance(loader.sampler, shares) or isinstance(loader.batch_sampler, batches)


def is_whole(loader: Any) -> bool:
    """Whether a loader gives each rank the samples of all."""
    if not isinstance(loader, DataLoader):
        return not hasattr(loader, "whole")
    return isinstance(loader.sampler, _WholeSampler) or not is_sharded(loader)


def _has_own_sampler(loader: DataLoader[Any]) -> bool:
    """Whether the sampler is another than the one that a DataLoader makes for itself."""
    sampler = loader.sampler
    plain = type(sampler) is SequentialSampler or (
        type(sampler) is RandomSampler and not sampler.replacement and sampler._num_samples is None
    )
    return not plain or getattr(sampler, "data_source", None) is not loader.dataset


def _batch_size(loader: DataLoader[Any]) -> int:
    if loader.batch_size is None:
        stop("batch_size=None leaves the batches to the dataset: give the loader a batch size")
    return loader.batch_size


def _view(
    loader: Loader, sampler: Any, batch_size: int | None, drop_last: bool | None = None, dataset: Any = None
) -> Loader:
    last = loader.drop_last if drop_last is None else drop_last
    assert batch_size is not None
    return _like(
        loader,
        dataset=loader.dataset if dataset is None else dataset,
        sampler=sampler,
        batch_sampler=BatchSampler(sampler, batch_size, last),
        batch_size=batch_size,
        drop_last=last,
    )


def _like(loader: Loader, **fields: Any) -> Loader:
    """A copy with other samples. It keeps no workers between passes: it is made anew for each."""
    view = object.__new__(type(loader))
    view.__dict__.update(loader.__dict__)
    view.__dict__.update(fields, persistent_workers=False, _iterator=None)  # a DataLoader forbids to set these
    return view
