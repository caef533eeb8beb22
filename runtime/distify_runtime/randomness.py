"""The two streams of random numbers: one that all ranks share, and one of each rank's own."""

from __future__ import annotations

import itertools
import random
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from distify_runtime.environment import rank, world_size

#: Each call of `common_seed` has a number, the same on every rank, by which they find rank 0's answer to it.
_calls = itertools.count()


def common_seed() -> int:
    """A seed that all ranks share, below 2**31: rank 0's `torch.initial_seed()`. Every rank has to call it.

    Rank 0 leaves it for the others and waits for nobody: a broadcast would hang inside `main_process_first`,
    where the samplers of downloaded datasets are made.
    """
    seed = torch.initial_seed() % 2**31
    if world_size() == 1:
        return seed
    store, key = _get_default_store(), f"distify/common_seed/{next(_calls)}"
    if rank() != 0:
        return int(store.get(key))
    store.set(key, str(seed))
    return seed


def seed_ranks_apart() -> None:
    """Give each rank random numbers of its own from here on, for augmentation, dropout and noise.

    Rank 0 goes on with the stream it has, so that a world of one is left alone.
    """
    seed = common_seed() + rank()
    if rank() == 0:
        return
    torch.manual_seed(seed)
    random.seed(seed)
    if numpy := _imported_numpy():
        numpy.random.seed(seed)


def share_random_state() -> None:
    """Put every rank where rank 0 is in the streams of torch, `random` and (if imported) numpy.

    A collective.
    """
    states = [_random_state() if rank() == 0 else None]
    dist.broadcast_object_list(states, src=0, device=torch.device("cpu"))
    if rank() != 0 and states[0] is not None:
        _set_random_state(states[0])


def _random_state() -> dict[str, Any]:
    numpy = _imported_numpy()
    return {
        "seed": torch.initial_seed(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
        "python": random.getstate(),
        "numpy": numpy.random.get_state() if numpy else None,
    }


def _set_random_state(state: dict[str, Any]) -> None:
    torch.manual_seed(state["seed"])
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    random.setstate(state["python"])
    numpy = _imported_numpy()
    if numpy and state["numpy"] is not None:
        numpy.random.set_state(state["numpy"])


def _imported_numpy() -> Any:
    """numpy if something has imported it, else None: what is not imported has no stream to look after."""
    return sys.modules.get("numpy")
