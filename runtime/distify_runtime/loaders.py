"""Keyword arguments of a DataLoader, changed so that it loads one rank's shard."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any, cast

from torch.utils.data import Dataset, DistributedSampler, IterableDataset

from distify_runtime.batch import per_rank_batch_size, per_rank_workers
from distify_runtime.environment import rank, world_size
from distify_runtime.output import stop
from distify_runtime.randomness import common_seed
from distify_runtime.samplers import UnpaddedSampler


def shard_training(dataset: Dataset[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """`DataLoader(dataset, **shard_training(dataset, kwargs))` sees this rank's shard of the training data.

    The global batch stays what `kwargs` says. The caller calls the sampler's `set_epoch`.
    Raises SystemExit where `kwargs` or the dataset choose the samples themselves.
    """
    shard = _without_shuffle(dataset, kwargs)
    shard["sampler"] = DistributedSampler(
        dataset,
        num_replicas=world_size(),
        rank=rank(),
        shuffle=bool(kwargs.get("shuffle")),
        seed=common_seed(),
        drop_last=bool(kwargs.get("drop_last")),
    )
    shard["batch_size"] = per_rank_batch_size(kwargs.get("batch_size", 1))
    return shard


def shard_evaluation(dataset: Dataset[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The same for evaluation: each sample on exactly one rank, in the batch size that `kwargs` says.

    Raises SystemExit where `kwargs` or the dataset choose the samples themselves.
    """
    shard = _without_shuffle(dataset, kwargs)
    shard["sampler"] = UnpaddedSampler(cast(Sized, dataset))
    return shard


def _without_shuffle(dataset: Dataset[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(dataset, IterableDataset):
        stop(f"{type(dataset).__name__} is an IterableDataset: it has to share out its samples itself")
    for name in ("sampler", "batch_sampler"):
        if kwargs.get(name) is not None:
            stop(f"the loader's {name} chooses its samples itself: make it draw this rank's share of them")
    if kwargs.get("batch_size", 1) is None:
        stop("batch_size=None leaves the batches to the dataset: give the loader a batch size")
    shard = {name: value for name, value in kwargs.items() if name != "shuffle"}
    if "num_workers" in shard:
        shard["num_workers"] = per_rank_workers(shard["num_workers"])
    return shard
