"""One process's figures shared out over the ranks."""

from __future__ import annotations

from typing import Any

import torch

from distify_runtime.environment import local_world_size, rank, world_size
from distify_runtime.output import stop

#: The largest batch that was shared out: only a smaller one may be the ragged last one of a pass.
_largest = 0


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
    return batch_size // ranks


def per_rank_workers(num_workers: int) -> int:
    """A rank's part of a node's `num_workers` loader processes, rounded up; 0 stays 0."""
    return -(-num_workers // local_world_size())


def shard_batch(batch: Any, dim: int = 0) -> Any:
    """A rank's samples of a batch that all ranks hold alike: the rank-th of world-size equal parts along `dim`.

    batch: a tensor or array with the samples along `dim`, a list of samples (`dim=0`), or a tuple or dictionary (with
    `dim` above 0 also a list) of such batches; numbers, strings and None in them stay as they are.
    A batch that does not divide by the world size raises SystemExit on all ranks, unless there was a larger one before:
    then it is taken for the ragged end of the data, and its first samples are repeated at its end.
    """
    if world_size() == 1 or batch is None or isinstance(batch, (bool, int, float, str)):
        return batch
    if isinstance(batch, dict):
        return {key: shard_batch(value, dim) for key, value in batch.items()}
    if isinstance(batch, tuple) or (isinstance(batch, list) and dim > 0):
        parts = [shard_batch(value, dim) for value in batch]
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
