"""Times synchronous SGD on two Gloo ranks: gradients averaged by the runtime, one by one, and by DDP.

    python benchmarks/allreduce.py [--width 128] [--batch 32] [--rounds 9] [--steps 4]

The model is 100 linear layers: 200 parameter tensors, with weights such that gradients do not vanish. As torch makes
them by itself, they end as denormal numbers, with which a processor takes several times as long.

Averaging alone is timed for the runtime's `all_reduce_gradients` and for one blocking call for each parameter; whole
training steps also for DistributedDataParallel, which averages during the backward pass as the runtime does where it
has more than one bucket. Rounds of each take turns, and medians are printed, so that whatever else the machine does
meets all of them alike.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

RUNTIME = Path(__file__).resolve().parent.parent / "runtime"
RANKS, LAYERS, WARM_UP = 2, 100, 2


def main() -> int:
    parser = argparse.ArgumentParser(description="synchronous SGD: the runtime, one call per parameter, and DDP")
    parser.add_argument("--width", type=int, default=128, help="of the layers")
    parser.add_argument("--batch", type=int, default=32, help="samples of each rank")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=4, help="in a round, of each kind")
    options = parser.parse_args()
    if "RANK" in os.environ:
        time_all(options)
        return 0
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env=_environment(rank)) for rank in _ports()]
    return max(rank.wait() for rank in ranks)


def _ports() -> list[dict[str, str]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    return [{"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": port} for rank in range(RANKS)]


def _environment(own: dict[str, str]) -> dict[str, str]:
    shared = {
        "WORLD_SIZE": str(RANKS),
        "LOCAL_WORLD_SIZE": str(RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(RUNTIME),
    }
    return {**os.environ, **shared, **own}


def time_all(options: argparse.Namespace) -> None:
    import distify_runtime as rt
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    def build() -> nn.Module:
        torch.manual_seed(0)
        layers = [nn.Linear(options.width, options.width) for _ in range(LAYERS)]
        for layer in layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        return nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))

    def one_by_one(model: nn.Module) -> None:
        for parameter in model.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad.data)

    def nothing(model: nn.Module) -> None:
        pass

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, average: Callable[[nn.Module], None]) -> None:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        average(model)
        optimizer.step()

    rt.init_process_group()
    torch.set_num_threads(1)
    x, y = torch.randn(options.batch, options.width), torch.randn(options.batch, options.width)
    averaging: dict[str, Callable[[nn.Module], None]] = {
        "one call per parameter": one_by_one,
        "all_reduce_gradients": rt.all_reduce_gradients,
        "DistributedDataParallel": nothing,
    }
    timed: dict[str, Callable[[], None]] = {}
    for name, average in averaging.items():
        model = build() if average is not nothing else DistributedDataParallel(build())
        timed[f"step, {name}"] = partial(step, model, torch.optim.SGD(model.parameters(), lr=1e-3), average)
    for name in ("one call per parameter", "all_reduce_gradients"):
        model = build()
        nn.functional.mse_loss(model(x), y).backward()
        timed[f"averaging alone, {name}"] = partial(averaging[name], model)
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(options.rounds + WARM_UP):
        for name, work in timed.items():
            rt.barrier()
            start = time.perf_counter()
            for _ in range(options.steps):
                work()
            seconds[name].append((time.perf_counter() - start) / options.steps)
    if rt.is_main_process():
        found = {name: 1000 * median(all_rounds[WARM_UP:]) for name, all_rounds in seconds.items()}
        report(found, sum(parameter.nbytes for parameter in build().parameters()) / 2**20)


def report(found: dict[str, float], size: float) -> None:
    print(f"{2 * LAYERS} parameter tensors, {size:.1f} MiB, {RANKS} Gloo ranks; milliseconds, medians")
    for name, milliseconds in found.items():
        print(f"  {name:<42} {milliseconds:8.1f}")
    naive, ours = (found[f"averaging alone, {name}"] for name in ("one call per parameter", "all_reduce_gradients"))
    print(f"averaging alone: {naive / ours:.2f} times as fast as one call per parameter")
    naive, ours, ddp = (
        found[f"step, {name}"] for name in ("one call per parameter", "all_reduce_gradients", "DistributedDataParallel")
    )
    print(f"a whole step: {naive / ours:.2f} times as fast as one call per parameter")
    print(f"a whole step: {ddp / ours:.2f} times as fast as DistributedDataParallel")


if __name__ == "__main__":
    sys.exit(main())
