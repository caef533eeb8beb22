"""The arguments of a DataLoader, changed so that it loads one rank's shard."""

from __future__ import annotations

import inspect
from typing import Any, cast

from torch.utils.data import DataLoader, IterableDataset

from distify_runtime.batch import loader_batch_size, per_rank_workers
from distify_runtime.iterables import shard_iterable
from distify_runtime.meeting import collective
from distify_runtime.output import stop
from distify_runtime.samplers import UnpaddedSampler
from distify_runtime.training_samplers import DistributedBatchSampler, DistributedSamplerWrapper, TrainingSampler

_POSITIONAL = [
    parameter.name
    for parameter in inspect.signature(DataLoader.__init__).parameters.values()
    if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
][1:]


@collective
def shard_training(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """`DataLoader(**shard_training(...))` sees this rank's shard of what `DataLoader(...)` would load in training.

    The global batch stays what the arguments say (with `init_process_group(per_rank_batch=True)`, each rank's does),
    and who chooses the samples still does. The caller calls `set_epoch`. Raises SystemExit where the data set makes
    the batches.
    """
    options = _by_name(args, kwargs)
    drop_last = bool(options.get("drop_last"))
    if isinstance(options["dataset"], IterableDataset):
        options["dataset"] = shard_iterable(options["dataset"], drop_last)
        options["batch_size"] = loader_batch_size(options.get("batch_size", 1))
        return options  # each worker's stream stays as it was, and so does their number
    if "num_workers" in options:
        options["num_workers"] = per_rank_workers(options["num_workers"])
    if options.get("batch_sampler") is not None:
        return {**options, "batch_sampler": DistributedBatchSampler(options["batch_sampler"])}
    shuffle, sampler = bool(options.pop("shuffle", False)), options.get("sampler")
    options["batch_size"] = loader_batch_size(options.get("batch_size", 1))
    if sampler is not None:
        return {**options, "sampler": DistributedSamplerWrapper(sampler, drop_last)}
    options["sampler"] = TrainingSampler(options["dataset"], shuffle, drop_last, options.get("generator"))
    return options


@collective
def shard_evaluation(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """The same for evaluation: each sample on exactly one rank, in the batch size that the arguments say.

    Raises SystemExit where the data set, or a batch sampler, makes the batches.
    """
    options = _by_name(args, kwargs)
    if isinstance(options["dataset"], IterableDataset):
        stop(f"{type(options['dataset']).__name__} is an IterableDataset: it has to share out its samples itself")
    if options.get("batch_sampler") is not None:
        stop("the loader's batch_sampler chooses its batches itself: make it draw this rank's share of them")
    if "num_workers" in options:
        options["num_workers"] = per_rank_workers(options["num_workers"])
    options.pop("shuffle", None)
    options["sampler"] = UnpaddedSampler(cast(Any, options["dataset"]), options.get("sampler"))
    return options


def _by_name(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, those of a DataLoader that are None left out: that is what they are by themselves."""
    options = {**dict(zip(_POSITIONAL, args, strict=False)), **kwargs}
    if "dataset" not in options:
        stop("the loader has no data set")
    if "batch_size" in options and options["batch_size"] is None and options.get("batch_sampler") is None:
        stop("batch_size=None leaves the batches to the dataset: give the loader a batch size")
    return {name: value for name, value in options.items() if value is not None}
