"""What is computed in half precision is held against half precision, whatever its weights and gradients are."""

from __future__ import annotations

from array import array
from typing import Any

import distify_runtime as rt
import pytest
import torch
from ranks import on_ranks
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self, related: bool, inside: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(24, 64, 7, padding=3), nn.GELU(), nn.Conv2d(64, 10, 1))
        self.related, self.inside, self.seen = related, inside, array("i")

    def forward(self, samples: Tensor) -> Tensor:
        self.seen.append(len(samples))
        with torch.autocast("cpu", torch.bfloat16, enabled=self.inside):
            out: Tensor = self.body(samples)
        out = out.float()
        return out - out.mean(0) if self.related else out


def _under_autocast(related: bool, inside: bool) -> Any:
    torch.manual_seed(0)
    net = Net(related, inside)
    rt.data_parallel(net)
    samples = torch.randn(8, 24, 8, 8, generator=torch.Generator().manual_seed(1))
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            out = net(samples)
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
    return net.seen[-1]


@pytest.mark.parametrize("inside", [False, True])
def test_a_layer_under_autocast_is_shared(inside: bool) -> None:
    assert on_ranks(_under_autocast, False, inside) == [4, 4]


@pytest.mark.parametrize("inside", [False, True])
def test_samples_that_depend_on_each_other_are_seen_under_autocast_too(inside: bool) -> None:
    assert on_ranks(_under_autocast, True, inside) == [8, 8]
