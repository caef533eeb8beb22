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

#: Seconds that ranks have to come, as in torch.
_PATIENCE = 1800.0
_POLL = 0.005


def where_to_meet(world_of_one: bool, environ: Mapping[str, str]) -> dict[str, Any]:
    """For torch's `init_process_group`: nothing, where torch by itself opens a store that is new each time."""
    if world_of_one:
        return {"store": HashStore(), "rank": 0, "world_size": 1}
    if environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return {}
    rank, world_size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    address, port = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
    store = TCPStore(address, port, world_size, is_master=False, timeout=timedelta(seconds=_PATIENCE))
    name = _deal_out_a_name(store, world_size) if rank == 0 else _be_told(store, rank)
    return {"store": PrefixStore(f"distify/start/{name}", store), "rank": rank, "world_size": world_size}


def _be_told(store: Store, rank: int) -> str:
    """The name that rank 0 gives this start. What this rank itself has made up, no other start knows."""
    mine = _new_name()
    store.set(f"distify/came/{rank}", mine)
    name: str = store.get(f"distify/told/{mine}").decode()
    store.set(f"distify/knows/{name}/{rank}", "")
    return name


def _deal_out_a_name(store: Store, world_size: int) -> str:
    """Tells all who come, until all know it: one that came in an earlier start says nothing any more."""
    name, told, until = _new_name(), dict[int, bytes](), time.monotonic() + _PATIENCE
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
            raise TimeoutError(f"of {world_size} ranks, {sorted(missing)} have not come within {_PATIENCE:.0f} s")
        time.sleep(_POLL if missing else 0)
    return name


def _new_name() -> str:
    return f"{os.getpid()}-{uuid.uuid4().hex}"
