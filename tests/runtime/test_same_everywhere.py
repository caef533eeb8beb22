"""Machines that run different code or another torch are told of each other at the start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from distify_runtime.same_everywhere import checksum, differences, what_runs
from distify_runtime.trace.processes import free_port

TRAIN = """
import distify_runtime as rt
rt.init_process_group()
rt.barrier()
print("met")
"""


def two_machines(tmp_path: Path, *scripts: str, **env: str) -> list[tuple[int, str, str]]:
    """How a rank on each ends, by its environment on one machine."""
    port, processes = str(free_port()), []
    for rank, script in enumerate(scripts):
        folder = tmp_path / str(rank)
        folder.mkdir()
        (folder / "train.py").write_text(script)
        numbers = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo", "PYTHONHASHSEED": "0"}
        pipe = subprocess.PIPE
        environ = {**os.environ, **numbers, **where, **env}
        words = [sys.executable, "train.py"]
        processes.append(subprocess.Popen(words, cwd=folder, env=environ, stdout=pipe, stderr=pipe, text=True))
    told = [process.communicate(timeout=120) for process in processes]
    return [(process.returncode, *both) for process, both in zip(processes, told, strict=True)]


def test_the_same_script_runs(tmp_path: Path) -> None:
    assert two_machines(tmp_path, TRAIN, TRAIN) == [(0, "met\n", ""), (0, "met\n", "")]


def test_another_script_ends_the_run(tmp_path: Path) -> None:
    first, second = two_machines(tmp_path, TRAIN, TRAIN + "# newer\n")
    assert (first[0], first[1], second[0], second[1]) == (1, "", 1, "")
    assert first[2].startswith("distify: machines do not run the same: script is ")
    assert " on most ranks; rank 1 on " in first[2]
    assert second[2] == first[2]


def test_it_may_be_meant(tmp_path: Path) -> None:
    first, second = two_machines(tmp_path, TRAIN, TRAIN + "# newer\n", DISTIFY_WATCH="off")
    assert (first, second) == ((0, "met\n", ""), (0, "met\n", ""))


@pytest.mark.parametrize(
    ("torches", "said"),
    [
        (["2.13.0"] * 4, ""),
        (["2.13.0", "2.13.0", "2.12.1", "2.13.0"], "torch is 2.13.0 on most ranks; rank 2 on c has 2.12.1"),
        (["2.12.1", "2.13.0", "2.13.0"], "torch is 2.13.0 on most ranks; rank 0 on a has 2.12.1"),
        (["2.12.1", "2.13.0"], "torch is 2.12.1 on most ranks; rank 1 on b has 2.13.0"),
        (["1", *"2345678"], "torch is 1 on most ranks; rank 1 on b has 2, rank 2 on c has 3, rank 3 on d has 4, rank 4 "
         "on e has 5, and 3 more"),
    ],
)  # fmt: skip
def test_who_differs(torches: list[str], said: str) -> None:
    everyone = [(host, {"script": "x", "torch": torch}) for host, torch in zip("abcdefgh", torches, strict=False)]
    assert differences(everyone) == (said and f"machines do not run the same: {said}")


def test_what_is_compared(tmp_path: Path) -> None:
    found = what_runs()
    assert set(found) == {"script", "distify_runtime", "torch", "Python"}
    assert len(found["distify_runtime"]) == 12
    assert checksum([tmp_path / "none.py"]) == ""
