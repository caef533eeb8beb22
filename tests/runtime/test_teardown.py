"""A job ends with the exit code that its script gives it; benchmarks/teardown.py runs many jobs."""

from __future__ import annotations

import sys

import pytest
from ranks import run_script

from tests.grid import slow

TRAIN = """
import atexit, pathlib, sys, torch

@atexit.register  # before the group: runs after the teardown
def report():
    print("weights", len(model.state_dict()), sum(p.numel() for p in model.parameters()))

import distify_runtime as rt
from torch.nn.parallel import DistributedDataParallel

def main(ending):
    for _ in range(3):
        loss = model(torch.randn(2, 4)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if ending == "exit":
        sys.exit(3)
    if ending == "raise":
        raise ValueError("boom")
    if ending == "twice":
        rt.destroy_process_group()
        rt.destroy_process_group()
        print(len([name for name in threads() if "gloo" in name]), "threads left")
    return 0

def threads():
    return [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm")]

rt.init_process_group()
model = rt.convert_sync_batchnorm(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)))
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
main(sys.argv[1])
"""


@pytest.mark.parametrize(
    ("ending", "code"), [pytest.param("return", 0, marks=slow), ("exit", 3), pytest.param("raise", 1, marks=slow)]
)
def test_the_exit_code_survives_the_teardown(ending: str, code: int) -> None:
    for ended in run_script(TRAIN, ending, fresh=True):
        assert ended.code == code, ended.err
        assert ended.out == "weights 7 28\n"
        if ending == "raise":
            assert ended.err.rstrip().endswith("ValueError: boom")
        else:
            assert ended.err == ""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads thread names from /proc")
def test_no_thread_of_the_group_outlives_it() -> None:
    for ended in run_script(TRAIN, "twice", fresh=True):
        assert (ended.code, ended.out, ended.err) == (0, "0 threads left\nweights 7 28\n", "")


ONE_RANK_RAISES = """
import torch, distify_runtime as rt
from torch.nn.parallel import DistributedDataParallel
rt.init_process_group()
model = DistributedDataParallel(torch.nn.Linear(2, 2))
for step in range(5):
    if step == 2 and rt.rank() == 1:
        raise ValueError("boom")
    model(torch.ones(1, 2)).sum().backward()
"""


def test_when_one_rank_raises_the_others_end_too() -> None:
    waiting, raising = run_script(ONE_RANK_RAISES, fresh=True)
    assert raising.code == 1
    assert raising.err.rstrip().endswith("ValueError: boom")
    assert waiting.code == 1
    assert "RuntimeError" in waiting.err
