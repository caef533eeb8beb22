"""Times training on two Gloo ranks: forward passes that ranks share, against DistributedDataParallel on shards.

    python benchmarks/shared.py [--rounds 9] [--loader] [--profile]

Three models: an MLP (a step of some 5 ms), a CNN with BatchNorm (some 25 ms) and a transformer (over 100 ms). Both
kinds of training run in the same two processes, in rounds that take turns, so that whatever else the machine does meets
both alike; medians are printed, and their ratio, and what of a shared step goes to loading, computing, gathering and
sums of gradients. `--loader` has a DataLoader make the batches, which lie in memory else; `--profile` adds a profile of
a shared step. At the end stands the peak memory of a process that does one kind alone.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

RUNTIME = Path(__file__).resolve().parent.parent / "runtime"
RANKS, WARM_UP = 2, 12
MODELS = {"mlp": 40, "cnn": 12, "transformer": 4}  # steps in a round


def main() -> int:
    parser = argparse.ArgumentParser(description="shared forward passes against DistributedDataParallel")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", choices=list(MODELS))
    parser.add_argument("--loader", action="store_true", help="batches come from a DataLoader")
    parser.add_argument("--profile", action="store_true", help="also where the time of a shared step goes")
    parser.add_argument("--memory", choices=["shared", "ddp"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if "RANK" in os.environ:
        run(options)
        return 0
    code = _launch(sys.argv[1:])
    for model in [options.only] if options.only else MODELS:
        for kind in ("ddp", "shared"):
            code = code or _launch(["--only", model, "--memory", kind, *["--loader"] * options.loader])
    return code


def _launch(arguments: list[str]) -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    shared = {
        "WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(RUNTIME),
        "PYTHONHASHSEED": "0",
    }  # fmt: skip
    ranks = [
        subprocess.Popen(
            [sys.executable, sys.argv[0], *arguments],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(RANKS)
    ]
    return max(rank.wait() for rank in ranks)


def run(options: argparse.Namespace) -> None:
    import distify_runtime as rt

    rt.init_process_group()
    for name in [options.only] if options.only else MODELS:
        if options.memory:
            step = _training(name, options.memory == "shared", options.loader)
            for _ in range(WARM_UP):
                step()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            rt.rank_zero_print(f"{name:12} {options.memory:7} peak {peak:.0f} MiB")
        else:
            _compare(name, options)


def _compare(name: str, options: argparse.Namespace) -> None:
    import distify_runtime as rt
    from distify_runtime.shared import costs

    kinds = {kind: _training(name, kind == "shared", options.loader) for kind in ("ddp", "shared")}
    spent: dict[str, float] = {}
    for step in kinds.values():
        for _ in range(WARM_UP):
            step()
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(options.rounds):
        for kind, step in kinds.items():
            rt.barrier()
            before = costs.all_taken()
            began = time.perf_counter()
            for _ in range(MODELS[name]):
                step()
            times[kind].append((time.perf_counter() - began) / MODELS[name] * 1e3)
            if kind == "shared":
                for what, seconds in costs.all_taken().items():
                    spent[what] = spent.get(what, 0.0) + max(seconds - before.get(what, 0.0), 0.0)
    ddp, shared = median(times["ddp"]), median(times["shared"])
    ratios = [one / other for one, other in zip(times["ddp"], times["shared"], strict=True)]
    rt.rank_zero_print(
        f"{name:12} ddp {ddp:7.2f} ms  shared {shared:7.2f} ms  speed {ddp / shared:.2f} "
        f"(rounds {min(ratios):.2f} to {max(ratios):.2f})"
    )
    steps = options.rounds * MODELS[name]
    parts = {"loading": ("LOADING", "SAMPLES"), "computing": ("COMPUTING",), "all-reduce": ("SUMS",)}
    parts["gathering"] = tuple(what for what in spent if all(what not in kinds for kinds in parts.values()))
    told = (f"{part} {sum(spent.get(one, 0.0) for one in of) / steps * 1e3:.2f} ms" for part, of in parts.items())
    rt.rank_zero_print(f"{'':12} of a shared step: {', '.join(told)} (rank 0, waiting for the others included)")
    if options.profile:
        _profile(kinds["shared"])


def _training(name: str, shared: bool, loads: bool) -> Callable[[], None]:
    import distify_runtime as rt
    import torch
    from distify_runtime.sight import in_sight
    from torch.nn import functional as F
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model, samples, labels = _model(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if shared:
        rt.data_parallel(model)
    else:
        with in_sight():  # a shared model in the same process hides the group
            model = DistributedDataParallel(rt.convert_sync_batchnorm(model))
        half = slice(rt.rank() * len(samples) // RANKS, (rt.rank() + 1) * len(samples) // RANKS)
        samples, labels = samples[half], labels[half]

    batches = _loaded(samples, labels) if loads else itertools.repeat((samples, labels))

    def step() -> None:
        samples, labels = next(batches)
        optimizer.zero_grad()
        out = model(samples)
        F.cross_entropy(out.flatten(0, -2), labels.flatten()).backward()
        optimizer.step()

    return step if shared else in_sight()(step)


def _loaded(samples: Any, labels: Any) -> Iterator[Any]:
    """The same batch again and again, put together of its samples."""
    from torch.utils.data import DataLoader, TensorDataset

    while True:
        yield from DataLoader(TensorDataset(samples, labels), batch_size=len(samples))


def _model(name: str) -> tuple[Any, Any, Any]:
    import torch
    from torch import nn

    if name == "mlp":
        model: nn.Module = nn.Sequential(
            nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )
        return model, torch.randn(256, 256), torch.randint(10, (256,))
    if name == "cnn":
        convolutions = [
            part
            for channels in ((3, 16), (16, 32), (32, 32))
            for part in (nn.Conv2d(*channels, 3, padding=1), nn.BatchNorm2d(channels[1]), nn.ReLU(), nn.MaxPool2d(2))
        ]
        model = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(512, 10))
        return model, torch.randn(64, 3, 32, 32), torch.randint(10, (64,))
    layer = nn.TransformerEncoderLayer(192, 4, 768, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.Embedding(1000, 192), nn.TransformerEncoder(layer, 4), nn.Linear(192, 1000))
    return model, torch.randint(1000, (16, 64)), torch.randint(1000, (16, 64))


def _profile(step: Callable[[], None]) -> None:
    import distify_runtime as rt
    from torch.profiler import profile

    with profile(with_stack=False) as found:
        for _ in range(5):
            step()
    rt.rank_zero_print(
        found.key_averages().table(sort_by="self_cpu_time_total", row_limit=18, max_name_column_width=48)
    )


if __name__ == "__main__":
    sys.exit(main())
