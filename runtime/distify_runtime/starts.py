"""A store of this start's own, where torchrun starts all ranks anew and its store goes on.

torchrun's store outlives the ranks: those of the next start find in it what those of the last have left, such as the
address of a rank that is gone, or a value of rank 0's. How often a machine has started its ranks is no name for a
start, since machines may come and go. So rank 0 gives each start a name, and tells it to those ranks that have come.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import HashStore, PrefixStore, Store, TCPStore

from distify_runtime.arriving import has_all_here

#: Seconds that ranks have to come, as in torch.
_PATIENCE = 1800.0
_POLL = 0.005


class NotCome(RuntimeError):
    """Ranks that were started, and are not there: what torchrun starts them anew for, where it may."""

    __module__ = "distify_runtime"


def where_to_meet(world_of_one: bool, environ: Mapping[str, str], patience: float = 0.0) -> dict[str, Any]:
    """For torch's `init_process_group`: nothing, where torch by itself opens a store that is new each time.

    patience: seconds that ranks have to come; 0: as in torch. Where `distify run` sees all ranks it knows better which
    of them still gets on, and where it is. Raises NotCome.
    """
    if world_of_one:
        return {"store": HashStore(), "rank": 0, "world_size": 1}
    if environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return {}
    seconds = _PATIENCE if not patience or has_all_here(environ) else min(patience, _PATIENCE)
    rank, world_size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    address, port = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
    store = TCPStore(address, port, world_size, is_master=False, timeout=timedelta(seconds=_PATIENCE))
    name = _deal_out_a_name(store, world_size, seconds) if rank == 0 else _be_told(store, rank, seconds)
    return {"store": PrefixStore(f"distify/start/{name}", store), "rank": rank, "world_size": world_size}


def _be_told(store: Store, rank: int, seconds: float) -> str:
    """The name that rank 0 gives this start. What this rank itself has made up, no other start knows."""
    mine = _new_name()
    told, until = f"distify/told/{mine}", time.monotonic() + seconds
    store.set(f"distify/came/{rank}", mine)
    while not store.check([told]):
        if time.monotonic() > until:
            raise NotCome(f"rank 0 has not come within {seconds:.0f} s (--hang-timeout), and rank {rank} waits for it")
        time.sleep(_POLL)
    name = store.get(told).decode()
    store.set(f"distify/knows/{name}/{rank}", "")
    return name


def _deal_out_a_name(store: Store, world_size: int, seconds: float) -> str:
    """Tells all who come, until all know it: one that came in an earlier start says nothing any more."""
    name, told, until = _new_name(), dict[int, bytes](), time.monotonic() + seconds
    missing = set(range(1, world_size))
    while missing:
        for rank in sorted(missing):
            if store.check([f"distify/knows/{name}/{rank}"]):
                missing.discard(rank)
                continue
            came = store.get(f"distify/came/{rank}") if store.check([f"distify/came/{rank}"]) else None
            if came is not None and told.get(rank) != came:
                store.set(f"distify/told/{came.decode()}", name)
                told[rank] = came
        if time.monotonic() > until:
            names = f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, sorted(missing)[:8]))}"
            raise NotCome(f"{names} of {world_size} not there within {seconds:.0f} s (--hang-timeout); rank 0 waits")
        time.sleep(_POLL if missing else 0)
    return name


def _new_name() -> str:
    return f"{os.getpid()}-{uuid.uuid4().hex}"
