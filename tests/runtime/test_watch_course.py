"""What averages gradients is a wrap, or a line: where it is gone around from some step on, that step tells."""

from __future__ import annotations

import re

import pytest
from ranks import run_script

TRAIN = """
import sys, torch
import distify_runtime as rt
from torch import nn
from torch.nn.parallel import DistributedDataParallel

case = sys.argv[1]
rt.init_process_group()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
wrapped = case in ("around the wrap", "evaluated between")
model = DistributedDataParallel(net) if wrapped else net
optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
rt.seed_ranks_apart()
for step in range(1, 31):
    called = net if case == "around the wrap" and step >= 13 else model
    optimizer.zero_grad()
    called(torch.randn(4, 8)).square().mean().backward()
    if case == "accumulated" and step % 3:
        continue
    if not wrapped and not (case == "line left out" and step >= 13):
        rt.all_reduce_gradients(optimizer)
    optimizer.step()
    if case == "cast" and step == 13:
        net.double().float()
    if case == "another layer" and step == 13:
        net[1] = nn.Linear(8, 1)
        rt.broadcast_parameters(net)
        optimizer.add_param_group({"params": net[1].parameters()})
    if case == "another layer of each rank" and step == 13:
        net[1] = nn.Linear(8, 1)
        optimizer.add_param_group({"params": net[1].parameters()})
    if case == "evaluated between":
        net(torch.randn(4, 8))
print("trained", step)
"""


@pytest.mark.parametrize(
    ("case", "parameter"),
    [
        ("line left out", "`0.weight` and 3 more"),
        ("around the wrap", "`0.weight` and 3 more"),
        ("another layer of each rank", "`1.weight` and 1 more"),
    ],
)
def test_the_step_that_turns_is_looked_at(case: str, parameter: str) -> None:
    zero, _ = run_script(TRAIN, case)
    assert zero.code == 1
    assert re.search(rf"come apart: after step 1[34] of SGD, parameter {parameter} of rank 1 is not", zero.err), (
        zero.err
    )


@pytest.mark.parametrize("case", ["right", "accumulated", "cast", "another layer", "evaluated between"])
def test_what_is_averaged_goes_on(case: str) -> None:
    for ended in run_script(TRAIN, case):
        assert (ended.code, ended.out, ended.err) == (0, "trained 30\n", "")
