"""Processes that are timed at once, and compute step by step as ranks do: whoever is done first waits for the last."""

from __future__ import annotations

import itertools
import os
from datetime import timedelta

from torch._C._distributed_c10d import TCPStore

from distify_runtime.bench.clock import WAITING
from distify_runtime.bench.steps import Steps

#: Seconds until the others are taken to be gone.
_PATIENCE = 300


def keep_pace(steps: Steps, number: int, processes: int) -> None:
    """From now on, a step begins when all of the processes have ended the one before. The first of them is host."""
    if processes == 1:
        return
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, processes, is_master=number == 0, timeout=timedelta(seconds=_PATIENCE))
    numbers = itertools.count()

    def wait() -> None:
        step = next(numbers)
        with steps.clock.of(WAITING):
            if store.add(f"ended/{step}", 1) == processes:
                store.set(f"go/{step}", "")
            else:
                store.wait([f"go/{step}"])

    steps.after_each.append(wait)
