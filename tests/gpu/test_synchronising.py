"""A GPU is told what to do ahead of time: nothing of the runtime's waits for it but where that is said."""

from __future__ import annotations

import warnings

import distify_runtime as rt
import pytest
import torch
from distify_runtime.watch.watching import is_due
from ranks import on_ranks
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from tests.gpus import on_gpus

pytestmark = on_gpus


def _train(how: str) -> int:
    """Takes steps, of which those that are not looked at raise where they wait; returns how many there were."""
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(256) if how == "shared" else nn.LayerNorm(256)  # torch's own of several ranks waits
    net = nn.Sequential(nn.Linear(64, 256), norm, nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 10))
    samples, answers = torch.randn(30, 64, 64), torch.randint(10, (30, 64))
    model: nn.Module = net
    if how == "shared":
        rt.data_parallel([net])
    else:
        rt.seed_ranks_apart()
        model = DistributedDataParallel(net, device_ids=rt.device_ids(net))
        samples, answers = samples[:, rt.rank() :: 2].contiguous(), answers[:, rt.rank() :: 2].contiguous()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    free = 0
    warnings.filterwarnings("ignore", "Synchronization debug mode")
    for step in range(1, 30):
        looks = step < 6 or is_due(step) or is_due(step - 1)
        free += not looks
        torch.cuda.set_sync_debug_mode("default" if looks else "error")
        optimizer.zero_grad()
        F.cross_entropy(model(samples[step]), answers[step]).backward()
        optimizer.step()
    torch.cuda.set_sync_debug_mode("default")
    return free


@pytest.mark.parametrize("how", ["ddp", "shared"])
def test_no_step_waits_but_those_that_are_looked_at(how: str) -> None:
    free, other = on_ranks(_train, how)
    assert free == other > 15
