"""Each rank computes with as many threads under every launcher; what a user says of them stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from distify_runtime.threads import share_of

#: Under a launcher, on a machine with more cores than this one.
SCRIPT = """
import json, os, sys, torch
import distify_runtime as rt
from distify_runtime import threads

cores = json.loads(sys.argv[1])
threads.usable = lambda: list(range(*cores[rt.rank()]))
rt.init_process_group()
open(f"threads{rt.rank()}", "w").write(str(torch.get_num_threads()))
"""
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
SHARED, BOUND = [[0, 16], [0, 16]], [[0, 4], [4, 10]]


def threads(folder: Path, cores: list[list[int]], mpi: bool, **env: str) -> list[str]:
    (folder / "script.py").write_text(SCRIPT)
    words, given = ["script.py", json.dumps(cores)], {**os.environ, **env}
    if "OMP_NUM_THREADS" not in env:
        given.pop("OMP_NUM_THREADS", None)
    commands = [([sys.executable, *TORCHRUN, *words], given)]
    if mpi:  # as mpirun starts them
        of_all = {f"OMPI_COMM_WORLD_{name}": "2" for name in ("SIZE", "LOCAL_SIZE")}
        of_each = [{f"OMPI_COMM_WORLD_{name}": str(rank) for name in ("RANK", "LOCAL_RANK")} for rank in (0, 1)]
        commands = [([sys.executable, *words], {**given, **of_all, **one}) for one in of_each]
    processes = [subprocess.Popen(command, cwd=folder, env=env) for command, env in commands]
    assert [process.wait(120) for process in processes] == [0] * len(processes)
    return [(folder / f"threads{rank}").read_text() for rank in (0, 1)]


@pytest.mark.parametrize("mpi", [False, True], ids=["torchrun", "mpirun"])
@pytest.mark.parametrize(
    ("cores", "env", "found"),
    [
        pytest.param(SHARED, {}, ["8", "8"], id="shared"),
        pytest.param(BOUND, {}, ["4", "6"], id="bound"),
        pytest.param(SHARED, {"OMP_NUM_THREADS": "1"}, ["1", "1"], id="said"),
    ],
)
def test_ranks_share_the_cores(
    mpi: bool, cores: list[list[int]], env: dict[str, str], found: list[str], tmp_path: Path
) -> None:
    assert threads(tmp_path, cores, mpi, **env) == found


def test_a_core_is_shared_by_those_that_may_use_it() -> None:
    three = [("here", list(range(16)))] * 3
    assert [share_of(one, [*three, ("there", list(range(4)))]) for one in three] == [5, 5, 5]
    assert share_of(("there", [0, 1, 2, 3]), [*three, ("there", [0, 1, 2, 3])]) == 4
    assert share_of(("here", [0, 1]), [("here", [0, 1])] * 8) == 1
    overlapping = [("here", [0, 1, 2, 3]), ("here", [2, 3])]
    assert [share_of(one, overlapping) for one in overlapping] == [3, 1]
