"""What goes wrong with machines: a full disk, one that is gone. Nothing hangs, nothing is lost, the cause is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest
import torch

from tests.launchers.starting import environment, needs

pytestmark = pytest.mark.launchers

SAVES = """
import torch
import distify_runtime as rt

rt.init_process_group()
for step in range(1, 9):
    if rt.is_main_process():
        torch.save({"step": step, "weights": torch.zeros(step, 30_000)}, "small/last.pt")
    rt.barrier()
"""
TRAINS_FOR_EVER = """
import sys, time
import torch
import distify_runtime as rt
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rt.init_process_group()
model = DistributedDataParallel(nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(10**6):
    model(torch.ones(2, 2)).mean().backward()
    optimizer.step()
    time.sleep(0.01)
    if step == 20:
        open(sys.argv[1], "w").close()
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Of a third of a megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        [needs("mount"), "-t", "tmpfs", "-o", "size=300k", "tmpfs", folder], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no disk of one's own can be made here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_costs_no_checkpoint(small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "train_dist.py").write_text(SAVES)
    words = [sys.executable, "-m", "distify", "run", "-np", "2", "--logs", "logs", "train_dist.py"]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-2].startswith("distify: rank 0 of 2 failed with exit code 1")
    assert done.stderr.splitlines()[-1].startswith("distify: the disk is full, or a quota used up")
    assert os.listdir(small_disk) == ["last.pt"]
    assert torch.load(small_disk / "last.pt")["step"] == 1


def processes_in(machine: list[str]) -> list[int]:
    """Those of a network, and none that has ended and is only not waited for."""
    listed = subprocess.run([machine[0], "netns", "pids", machine[-1]], capture_output=True, text=True, check=True)
    return [int(one) for one in listed.stdout.split() if _runs(int(one))]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", ["killed", "unplugged"])
def test_a_lost_machine_ends_the_run(machines: list[list[str]], tmp_path: Path, how: str) -> None:
    (tmp_path / "train_dist.py").write_text(TRAINS_FOR_EVER)
    started, runs = [tmp_path / "started0", tmp_path / "started1"], []
    for number, machine in enumerate(machines):
        where = ["--nnodes", "2", "--node-rank", str(number), "--rdzv-endpoint", "10.77.0.1:29533"]
        words = [sys.executable, "-m", "distify", "run", "-np", "1", *where, "--hang-timeout", "8", "--grace", "5"]
        words += ["--logs", f"logs{number}", "train_dist.py", str(started[number])]
        runs.append(subprocess.Popen([*machine, *words], cwd=tmp_path, env=environment(), stderr=PIPE, text=True))
    until = time.monotonic() + 60
    while not all(path.exists() for path in started):
        assert time.monotonic() < until
        time.sleep(0.1)
    if how == "killed":
        for pid in processes_in(machines[1]):
            os.kill(pid, signal.SIGKILL)
    else:
        links = subprocess.run([*machines[1], "ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
        (cable,) = [line.split(": ")[1].split("@")[0] for line in links.splitlines() if "@" in line]
        subprocess.run([*machines[1], "ip", "link", "set", cable, "down"], check=True)
    before = time.monotonic()
    said = [run.communicate(timeout=120)[1] for run in runs]
    assert time.monotonic() - before < 60
    assert [run.returncode for run in runs] == ([1, -signal.SIGKILL] if how == "killed" else [1, 1])
    assert [processes_in(machine) for machine in machines] == [[], []]
    if how == "killed":
        assert said[0].splitlines()[-1].startswith("distify: a rank of another machine was gone first")
    else:
        logs = [(tmp_path / f"logs{rank}" / f"rank{rank}.log").read_text() for rank in (0, 1)]
        assert "rank 1 does not answer, and was at" in logs[0]
        assert "distify: rank 0's machine has not answered for" in said[1].splitlines()[-1]
