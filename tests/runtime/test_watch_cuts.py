"""Ranks that take their shares of different batches end; what all hold alike may round otherwise on each."""

from __future__ import annotations

import pytest
from ranks import run_script

TRAIN = """
import sys, torch
import numpy as np
import distify_runtime as rt
from torch import nn
from torch.nn.parallel import DistributedDataParallel

case = sys.argv[1]
rt.init_process_group()
net = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
drawn, asked = np.random.default_rng(0), np.random.default_rng(rt.rank())
for step in range(12):
    states = drawn.normal(size=(8, 4)).astype("float32")
    if case == "asked" and step >= 3:
        states += asked.normal(size=states.shape).astype("float32")
    if case == "nan" and rt.rank() == 1:
        states[0, 0] = np.nan
    if case == "rounded":
        states *= 1 + 1e-6 * rt.rank()
    names, states, goals = rt.shard_batch((["a"] * 8, torch.from_numpy(states), [float(step)] * 8))
    (net(states) - torch.tensor(goals)[:, None]).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print(len(names), len(states), len(goals))
"""


@pytest.mark.parametrize("case", ["asked", "nan"])
def test_batches_that_each_rank_has_for_itself_end_the_run(case: str) -> None:
    ended = run_script(TRAIN, case)
    assert all(one.code for one in ended)
    said = "rank 1 holds another batch than rank 0 at "
    told = "script.py:21, where each takes its share of what all ranks are to hold alike"
    assert any(said in one.err and told in one.err for one in ended), [one.err for one in ended]


@pytest.mark.parametrize("case", ["alike", "rounded"])
def test_batches_that_all_ranks_hold(case: str) -> None:
    ended = run_script(TRAIN, case)
    assert [(one.code, one.out, one.err) for one in ended] == [(0, "4 4 4\n", "")] * 2
