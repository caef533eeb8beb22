"""Counts how often a finished two-rank DDP job dies at interpreter exit.

    python benchmarks/teardown.py [--runs 200] [--baseline]

The job is the hard case: short, with a model that is a global of its script, and at its end right after its
last step. `--baseline` ends it with torch's own `destroy_process_group()` for comparison. Prints how many
ranks ended with which exit code, and exits with 1 unless all of them are 0.
"""

from __future__ import annotations

import argparse
import collections
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

RUNTIME = Path(__file__).resolve().parent.parent / "runtime"
RANKS = 2

STEPS = """
import torch
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(2, 4)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WITH_RUNTIME = "import distify_runtime as rt; rt.init_process_group()" + STEPS
BASELINE = "import torch.distributed as dist; dist.init_process_group('gloo')" + STEPS + "dist.destroy_process_group()"


def main() -> int:
    parser = argparse.ArgumentParser(description="exit codes of finished two-rank DDP jobs")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--baseline", action="store_true", help="end with torch's own destroy_process_group()")
    options = parser.parse_args()
    script = BASELINE if options.baseline else WITH_RUNTIME
    start = time.perf_counter()
    codes = collections.Counter(code for _ in range(options.runs) for code in run_job(script))
    seconds = time.perf_counter() - start
    for code, ranks in sorted(codes.items()):
        print(f"exit code {code:>3}: {ranks} of {options.runs * RANKS} ranks")
    print(f"{seconds / options.runs:.2f} s per run")
    return 0 if set(codes) == {0} else 1


def run_job(script: str) -> list[int]:
    """The exit codes of all ranks of one job, started as torchrun would, but faster."""
    shared = {
        "WORLD_SIZE": str(RANKS),
        "LOCAL_WORLD_SIZE": str(RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(RUNTIME),
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.DEVNULL,
        )
        for rank in range(RANKS)
    ]
    return [rank.wait() for rank in ranks]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
