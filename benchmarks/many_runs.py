"""How short two-rank jobs end that `distify run` starts, one after the other.

    python benchmarks/many_runs.py [--runs 200] [--launcher ENGINE]

The job is the hard case: a model that is a global of its script, wrapped, and at its end right after its last step, so
that a rank may die at interpreter exit. Prints how many runs ended with which exit code and how long one took, and
exits with 1 unless all codes are 0.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = """\
import torch
import distify_runtime as rt
from torch.nn.parallel import DistributedDataParallel

rt.init_process_group()
model = DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="exit codes of short two-rank runs")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--launcher", default="auto")
    options = parser.parse_args()
    path = os.pathsep.join(str(ROOT / name) for name in ("", "codemods", "runtime"))
    words = [sys.executable, "-m", "distify", "run", "-np", "2", "--launcher", options.launcher, "train_dist.py"]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train_dist.py").write_text(SCRIPT)
        codes: collections.Counter[int] = collections.Counter()
        for number in range(1, options.runs + 1):
            done = subprocess.run(words, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True)
            codes[done.returncode] += 1
            if done.returncode:
                print(done.stderr.decode(), flush=True)
            if number % 20 == 0:
                print(f"{number} runs, {number - codes[0]} of them badly", file=sys.stderr, flush=True)
    for code, runs in sorted(codes.items()):
        print(f"exit code {code:>3}: {runs} of {options.runs} runs")
    print(f"{(time.perf_counter() - start) / options.runs:.2f} s per run")
    return 0 if set(codes) == {0} else 1


if __name__ == "__main__":
    sys.exit(main())
