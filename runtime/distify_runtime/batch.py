"""One process's figures shared out over the ranks."""

from __future__ import annotations

from distify_runtime.environment import local_world_size, world_size
from distify_runtime.output import stop


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
