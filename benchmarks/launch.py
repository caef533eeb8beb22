"""How long `distify run -np 2` takes to the end of the first all-reduce, against plain torchrun, in turns.

    python benchmarks/launch.py [--pairs 10] [--plain] [--launcher ENGINE]

The clock starts where the command does, and stops in rank 0 when its first all-reduce is done. The script is a
converted one, which imports the runtime and joins the ranks by it; with `--plain` it knows of torch alone. Printed are
both times of each pair, the median ratio with the smallest and the largest, and the machine's load.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
RANKS = "2"
CONVERTED = """\
import sys, time
import torch
import distify_runtime as rt
rt.init_process_group()
rt.all_reduce_sum(torch.ones(1))
if rt.is_main_process():
    open(sys.argv[1], "w").write(str(time.time()))
"""
PLAIN = """\
import sys, time
import torch
from torch import distributed
distributed.init_process_group("gloo")
distributed.all_reduce(torch.ones(1))
if distributed.get_rank() == 0:
    open(sys.argv[1], "w").write(str(time.time()))
distributed.destroy_process_group()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="seconds to the first all-reduce, against torchrun's")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--plain", action="store_true", help="a script that does not import the runtime")
    parser.add_argument("--launcher", default="auto", help="of distify run")
    options = parser.parse_args()
    print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train_dist.py")
        script.write_text(PLAIN if options.plain else CONVERTED)
        ours = [sys.executable, "-m", "distify", "run", "-np", RANKS, "--launcher", options.launcher]
        theirs = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS]
        commands = {"distify": ours, "torchrun": theirs}
        for command in commands.values():  # once for the disk's sake
            seconds(command, script)
        ratios = []
        for number in range(options.pairs):
            order = list(commands)[:: 1 if number % 2 else -1]
            took = {name: seconds(commands[name], script) for name in order}
            ratios.append(took["distify"] / took["torchrun"])
            print(f"{number + 1}: distify run {took['distify']:.2f} s, torchrun {took['torchrun']:.2f} s", flush=True)
    print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())}")
    print(f"ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    return 0


def seconds(command: list[str], script: Path) -> float:
    """From the command to the end of the first all-reduce."""
    path = os.pathsep.join(str(ROOT / name) for name in ("", "codemods", "runtime"))
    told = {"PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done_at = script.with_name("done")
    began = time.time()
    subprocess.run(
        [*command, str(script), str(done_at)],
        cwd=script.parent,
        env={**os.environ, **told},
        check=True,
        capture_output=True,
    )
    return float(done_at.read_text()) - began


if __name__ == "__main__":
    sys.exit(main())
