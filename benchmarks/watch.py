"""What the watch of a converted run costs: two Gloo ranks train with it and without it, in turns.

    python benchmarks/watch.py [--rounds 7] [--steps 400]

A step takes some 10 ms. Printed are the median ratio of a step with the watch to one without it, with the smallest and
the largest, and the CPU time of the watch's own code (what follows a step, and the thread beside the training) as a
share of the time that the steps took.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

RUNTIME = Path(__file__).resolve().parent.parent / "runtime"
RANKS, WARM_UP = 2, 20


def main() -> int:
    parser = argparse.ArgumentParser(description="training with the watch against training without it")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    if "RANK" in os.environ:
        run(options.steps)
        return 0
    ratios, shares = [], []
    for number in range(options.rounds):
        found = {how: _launched(how, options.steps) for how in (("on", "off") if number % 2 else ("off", "on"))}
        ratios.append(found["on"]["step"] / found["off"]["step"])
        shares.append(found["on"]["own"])
        print(
            f"round {number + 1}: a step of {found['off']['step'] * 1e3:.1f} ms, {ratios[-1]:.3f} times with the watch"
        )
    print(f"ratio {median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    print(f"the watch's own CPU time: {median(shares):.2%} of the steps")
    return 0


def _launched(how: str, steps: int) -> dict[str, float]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    shared = {
        **os.environ, "WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(RUNTIME),
        "PYTHONHASHSEED": "0", "DISTIFY_WATCH": how,
    }  # fmt: skip
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, "--steps", str(steps)],
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
        )
        for rank in range(RANKS)
    ]
    out, *_ = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit("a rank has failed")
    found: dict[str, float] = json.loads(out)
    return found


def run(steps: int) -> None:
    import distify_runtime as rt
    import torch
    from distify_runtime.watch.watching import Watching
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    own = _timed(Watching)
    rt.init_process_group()
    model: Any = DistributedDataParallel(nn.Sequential(*(nn.Linear(256, 256) for _ in range(12))))
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    batch, times = torch.randn(48, 256), []
    for _ in range(WARM_UP + steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
    spent = own[0] + _of_thread()
    if rt.is_main_process():
        print(json.dumps({"step": median(times[WARM_UP:]), "own": spent / sum(times)}))


def _timed(watching: type[Any]) -> list[float]:
    """Seconds of this thread in what follows a step, added up as they are spent."""
    original, spent = watching.after_step, [0.0]

    def after_step(self: Any, optimizer: Any) -> None:
        began = time.thread_time()
        original(self, optimizer)
        spent[0] += time.thread_time() - began

    watching.after_step = after_step
    return spent


def _of_thread() -> float:
    import threading

    [beside] = [one for one in threading.enumerate() if one.name == "distify-watch"] or [None]
    return time.clock_gettime(time.pthread_getcpuclockid(beside.ident)) if beside and beside.ident else 0.0


if __name__ == "__main__":
    sys.exit(main())
