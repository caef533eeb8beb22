"""A run in which a rank waits for ever is ended in the time given, with where each rank is; nothing is left running."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from ranks import run_script

from tests.grid import slow

TRAIN = """
import os, signal, sys, threading, time, torch
import distify_runtime as rt
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, get_worker_info

case, folder = sys.argv[1:]
rank = int(os.environ["RANK"])


class Points(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        worker = get_worker_info()
        if worker is not None:
            open(f"{folder}/worker{rank}.{os.getpid()}", "w").close()
            if case == "worker" and rank == 1 and index >= 32:
                time.sleep(1000)  # in the worker
        return torch.randn(8), torch.randn(1)


def evaluate(model):
    if rank == 0:
        rt.barrier()  # which rank 1 never enters
    return model


rt.init_process_group()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
torch.manual_seed(rank)
workers = {"num_workers": 2, "persistent_workers": True} if case in ("worker", "slow worker") else {}
loader = DataLoader(Points(), 8, **workers)
open(f"{folder}/rank{rank}.{os.getpid()}", "w").close()
step = 0
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        step += 1
        if step == 3:
            if case == "collective":
                evaluate(model)
                threading.Event().wait()  # rank 1
            if case == f"stopped {rank}":
                os.kill(os.getpid(), signal.SIGSTOP)
            if case == "slow worker" and rank == 1:
                time.sleep(3)  # less than the time given
if case == "window":
    if rank == 0:
        sys.path.insert(0, folder)
        import pyplot

        pyplot.show()
    rt.barrier()
rt.rank_zero_print("trained", step)
"""


GRADIENTS = "the gradients of DistributedDataParallel"


def assert_nothing_runs(folder: Path) -> None:
    """Ranks and their workers; what has ended and is only not yet waited for does not count."""
    pids = [int(one.suffix[1:]) for one in folder.iterdir() if one.name.startswith(("rank", "worker"))]
    assert pids
    until = time.monotonic() + 5
    while (running := [pid for pid in pids if _runs(pid)]) and time.monotonic() < until:
        time.sleep(0.1)
    assert not running


def _runs(pid: int) -> bool:
    if sys.platform != "linux":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("case", "zero_waits_in", "one_waits_in", "met"),
    [
        ("collective", r"in evaluate\s+rt.barrier\(\)", r"threading.Event\(\).wait\(\)", ["all_reduce", GRADIENTS]),
        ("worker", r"nn.functional.mse_loss\(model\(x\), y\).backward\(\)", r"for x, y in loader:", [GRADIENTS] * 2),
    ],
)
def test_a_rank_that_waits_for_ever_ends_the_run(
    case: str, zero_waits_in: str, one_waits_in: str, met: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISTIFY_HANG_TIMEOUT", "4")
    began = time.monotonic()
    zero, one = run_script(TRAIN, case, str(tmp_path), fresh=True)
    assert (zero.code, one.code) == (1, 1)
    assert time.monotonic() - began < 90  # most of it the start
    assert re.search(r"no rank has got on for \d+ s, and the run is ended: rank 0 is at .*; rank 1 is at ", zero.err)
    of_zero, _, of_one = zero.err.partition("distify: rank 1, after")
    assert re.search(zero_waits_in, of_zero), zero.err
    assert re.search(one_waits_in, of_one), zero.err
    assert re.findall(r"; came last to (.*) \(its collective \d+\)[;:]", zero.err) == met
    if hasattr(torch._C._distributed_c10d, "_dump_fr_trace_json"):  # newer torch notes Gloo's collectives
        assert len(re.findall(r"; torch's recorder has last gloo:all_reduce of .*:$", zero.err, re.MULTILINE)) == 2
    assert_nothing_runs(tmp_path)


@pytest.mark.parametrize(
    ("stopped", "said"),
    [
        pytest.param(
            0, r"rank 0 has not answered for \d+ s, and this rank waits at train.py:\d+: that process", id="0"
        ),
        # One that does not answer is given up after 15 s.
        pytest.param(1, r"the run is ended: rank 0 is at .*; rank 1 does not answer, and was at ", id="1", marks=slow),
    ],
)
def test_a_rank_that_is_stopped_from_outside_ends_the_run(stopped: int, said: str, tmp_path: Path) -> None:
    """Rank 0 holds what the others leave their notes with. Where each was is said, once that one goes on."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "ran").mkdir()
    words = ["run", "-np", "2", "--oversubscribe", "--as-is", "--hang-timeout", "4", "--grace", "2", "train.py"]
    done = subprocess.run(
        [sys.executable, "-m", "distify", *words, f"stopped {stopped}", str(tmp_path / "ran")],
        cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.search(said, done.stderr), done.stderr
    line = 1 + next(number for number, one in enumerate(TRAIN.splitlines()) if "SIGSTOP)" in one)
    told = f"distify: rank {stopped} of 2 had been stopped by a signal (SIGSTOP) at train.py:{line}; its log"
    assert told in done.stderr.splitlines()[-3], done.stderr
    assert done.stderr.splitlines()[-1].strip() == "os.kill(os.getpid(), signal.SIGSTOP)"
    assert_nothing_runs(tmp_path / "ran")


def test_a_window_is_waited_for_until_somebody_closes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTIFY_HANG_TIMEOUT", "4")
    (tmp_path / "pyplot.py").write_text("import time\ndef show():\n    time.sleep(12)\n")
    for ended in run_script(TRAIN, "window", str(tmp_path), fresh=True):
        assert (ended.code, "distify" in ended.err) == (0, False), ended.err
    assert_nothing_runs(tmp_path)


def test_a_rank_that_is_slow_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTIFY_HANG_TIMEOUT", "15")
    for ended in run_script(TRAIN, "slow worker", str(tmp_path), fresh=True):
        assert (ended.code, "distify" in ended.err) == (0, False), ended.err
    assert_nothing_runs(tmp_path)
