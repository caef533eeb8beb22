"""One process's figures shared out over the ranks."""

from __future__ import annotations

from typing import Any

import torch

from distify_runtime.environment import is_alone, local_world_size, rank, world_size
from distify_runtime.meeting import by_itself
from distify_runtime.output import note, stop
from distify_runtime.watch import cuts

#: The largest batch that was shared out: only a smaller one may be the ragged last one of a pass.
_largest = 0

#: Whether loaders keep their batch size on each rank, so that the global batch grows with the world size.
_per_rank = False

#: Batches of a rank below this size seldom keep a device busy.
_SMALL = 8

#: The sizes that were spoken of.
_told: set[int] = set()


def keep_batch_size() -> None:
    """From now on, loaders that are sharded keep their batch size on each rank."""
    global _per_rank
    _per_rank = True


def keeps_batch_size() -> bool:
    return _per_rank


def loader_batch_size(batch_size: int) -> int:
    """What a loader of `batch_size` samples loads on each rank: a part of them, or all if it is to keep its size."""
    return batch_size if _per_rank else per_rank_batch_size(batch_size)


def whole_batch_size(batch_size: int) -> int:
    """The batch size that a sharded loader had before."""
    return batch_size if _per_rank else batch_size * world_size()


@by_itself
def per_rank_batch_size(batch_size: int) -> int:
    """A rank's part of a global batch of `batch_size` samples, so that the global batch stays what it was.

    Raises SystemExit on all ranks where the ranks' parts would not be equal.
    """
    ranks = world_size()
    if batch_size % ranks:
        below = max(batch_size // ranks, 1) * ranks
        stop(
            f"a batch of {batch_size} samples does not divide by {ranks} ranks: "
            f"use a batch size of {below} or {below + ranks}, or another number of ranks"
        )
    share = batch_size // ranks
    _say(batch_size, share)
    return share


def say_per_rank(batch_size: int) -> None:
    """Tell, once for each size, what batches of which each rank has `batch_size` samples are together."""
    _say(batch_size * world_size(), batch_size)


def is_a_share(samples: int) -> bool:
    """Whether loaders give each rank batches of as many samples."""
    return samples in _told


def _say(batch_size: int, share: int) -> None:
    if world_size() == 1 or share in _told:
        return
    _told.add(share)
    samples = "1 sample" if share == 1 else f"{share} samples"
    text = f"batches of {batch_size}: {samples} on each of {world_size()} ranks"
    if not _per_rank:
        text += "; the learning rate is the script's"
    if share < _SMALL:
        text += "; so few seldom pay: fewer ranks may be as fast"
    note(text)


@by_itself
def per_rank_workers(num_workers: int) -> int:
    """A rank's part of a node's `num_workers` loader processes, rounded up; 0 stays 0."""
    return -(-num_workers // local_world_size())


@by_itself
def shard_batch(batch: Any, dim: int = 0) -> Any:
    """A rank's samples of a batch that all ranks hold alike: the rank-th of world-size equal parts along `dim`.

    batch: a tensor or array with the samples along `dim`, a list of samples (`dim=0`), or a tuple or dictionary (with
    `dim` above 0 also a list) of such batches; numbers, strings and None in them stay as they are.
    A batch that does not divide by the world size raises SystemExit on all ranks, unless there was a larger one before:
    then it is taken for the ragged end of the data, and its first samples are repeated at its end.
    """
    if world_size() == 1:
        return batch
    cuts.before_cut(batch)
    return _share(batch, dim)


def _share(batch: Any, dim: int) -> Any:
    if batch is None or isinstance(batch, (bool, int, float, str)):
        return batch
    if isinstance(batch, dict):
        return {key: _share(value, dim) for key, value in batch.items()}
    if isinstance(batch, tuple) or (isinstance(batch, list) and dim > 0):
        parts = [_share(value, dim) for value in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    if isinstance(batch, (list, range)):
        return [batch[row] for row in _rows(len(batch))]
    rows = _rows(batch.shape[dim])
    if isinstance(batch, torch.Tensor):
        whole = rows[-1] - rows[0] + 1 == len(rows)
        if whole:
            part = batch.narrow(dim, rows[0], len(rows))
            return part.contiguous() if batch.is_contiguous() else part  # for a `view` that comes after
        return batch.index_select(dim, torch.tensor(rows, device=batch.device))
    return batch.take(rows, axis=dim)


def _rows(size: int) -> list[int]:
    """The rank's samples of `size`, by number."""
    global _largest
    ranks = world_size()
    if size % ranks and size >= _largest:
        per_rank_batch_size(size)  # says what would divide, and ends
    _largest = max(_largest, size)
    share = -(-size // ranks)
    return [row % size for row in range(rank() * share, (rank() + 1) * share)]


@by_itself
def squeeze(batch: Any, dim: int = 0) -> Any:
    """`batch.squeeze()` of a tensor or an array, of which the dimension of the samples stays.

    A rank may have one sample where the whole batch has more. In one process it may go, as in the original.
    dim: which one that is.
    """
    if is_alone():
        return batch.squeeze()
    return batch.squeeze(tuple(place for place in range(batch.ndim) if place != dim and batch.shape[place] == 1))
