"""What a task of a Spark cluster does before its rank's script starts: finds out which other ranks its host has.

TorchDistributor starts a torchrun of one rank in each task. Where a host has several tasks, each would take itself for
the host's only rank, with all its cores. And each sees no GPU but its own, which a local rank of 1 would not find.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from datetime import timedelta

from distify_runtime.launch.elsewhere import Launch, run_rank

#: A rank's host, and CUDA_VISIBLE_DEVICES there.
Place = tuple[str, str]
#: Seconds for all tasks to come, which Spark starts at once.
_PATIENCE = 300.0


def on_a_task(task: Launch) -> None:
    if int(os.environ["WORLD_SIZE"]) > 1 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        rank = int(os.environ["RANK"])
        os.environ |= local_place(rank, _everyone(rank, os.environ))
    run_rank(task)


def _everyone(rank: int, environ: Mapping[str, str]) -> list[Place]:
    """What all ranks say, by the store of the torchruns that they are in."""
    from torch._C._distributed_c10d import TCPStore  # only here: the launch itself has no use for torch

    port, count = int(environ["MASTER_PORT"]), int(environ["WORLD_SIZE"])
    store = TCPStore(environ["MASTER_ADDR"], port, count, is_master=False, timeout=timedelta(seconds=_PATIENCE))
    store.set(f"distify/place/{rank}", json.dumps((socket.gethostname(), environ.get("CUDA_VISIBLE_DEVICES", ""))))
    return [(host, gpus) for host, gpus in (json.loads(store.get(f"distify/place/{one}")) for one in range(count))]


def local_place(rank: int, everyone: Sequence[Place]) -> dict[str, str]:
    """What is to be said to a rank of its place on its host. It sees the GPUs of all, where each had one of its own."""
    here = [one for one, (host, _) in enumerate(everyone) if host == everyone[rank][0]]
    found = {"LOCAL_RANK": str(here.index(rank)), "LOCAL_WORLD_SIZE": str(len(here))}
    gpus = [everyone[one][1].partition(",")[0] for one in here]
    if "" not in gpus and len(set(gpus)) == len(gpus) > 1:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    return found
