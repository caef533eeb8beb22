"""Scripts that have what they make lie on another device (`torch.set_default_device`) find it where it was: what the
runtime makes for itself lies where ranks speak. The other device is one here that holds no numbers.
"""

from __future__ import annotations

import distify_runtime as rt
import pytest
import torch
from ranks import on_ranks
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

STEPS = 4


def _train(how: str) -> list[list[float]]:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
    samples, answers = torch.randn(STEPS, 12, 5), torch.randint(3, (STEPS, 12))
    samples[0, 0, 0] = 3
    orders = [list(range(12)) for _ in range(STEPS)]
    torch.set_default_device("meta")
    model: nn.Module = net
    if how == "shared":
        rt.data_parallel([net])
    elif how == "ddp":
        model = DistributedDataParallel(rt.convert_sync_batchnorm(net))
        sampler = rt.TrainingSampler(range(12))
        orders = [list(sampler) for _ in range(STEPS)]
    else:
        rt.broadcast_parameters(rt.convert_sync_batchnorm(net))
        sampler = rt.TrainingSampler(range(12))
        orders = [list(sampler) for _ in range(STEPS)]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    found = []
    for step, chosen in enumerate(orders):
        rows = torch.tensor(chosen, device="cpu")
        loss = F.cross_entropy(model(samples[step][rows]), answers[step][rows])
        optimizer.zero_grad()
        loss.backward()
        if how == "allreduce":
            rt.all_reduce_gradients(net)
        optimizer.step()
        mean = loss.item() if how == "shared" else rt.all_reduce_mean(loss.item())
        found.append([mean, float(rt.any_rank(rt.rank() == 1)), *rt.all_reduce_sum(len(chosen), 0.5)])
    rt.barrier()
    return found


@pytest.mark.parametrize("how", ["shared", "ddp", "allreduce"])
def test_trainings_are_the_same(how: str) -> None:
    first, second = on_ranks(_train, how)
    (alone,) = on_ranks(_train, "shared", ranks=1)
    assert first == second
    assert [row[1:] for row in first] == [[1.0, 24 if how == "shared" else 12, 1.0]] * STEPS
    if how == "shared":  # the others take samples in an order of their own
        assert [row[0] for row in first] == pytest.approx([row[0] for row in alone], abs=1e-12)
