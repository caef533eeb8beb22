"""Stochastic depth: a mask with one number for each sample, which a check does not take for a number of them all."""

from __future__ import annotations

import contextlib
import io
from array import array

import distify_runtime as rt
import pytest
import torch
from ranks import on_ranks
from torch import Tensor, nn

KEPT = 0.8


def _mask(how: str, x: Tensor) -> Tensor:
    shape = (len(x),) + (1,) * (x.dim() - 1)
    if how == "bernoulli_":
        return x.new_empty(shape).bernoulli_(KEPT)
    if how == "floor":
        return (KEPT + torch.rand(shape)).floor_()
    if how == "less":
        return (torch.rand(shape) < KEPT).to(x)
    return torch.bernoulli(torch.full(shape, KEPT))


class Block(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norm, self.layer, self.seen = how, nn.BatchNorm2d(3), nn.Conv2d(3, 3, 1), array("i")

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(len(x))
        return x + self.layer(self.norm(x)) * _mask(self.how, x) / KEPT


class Centred(Block):
    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        return out - out.mean(0)


def _run(kind: type[Block], how: str, samples: int) -> tuple[int, str]:
    torch.manual_seed(0)
    net, said = nn.Sequential(kind(how), kind(how)), io.StringIO()
    rt.data_parallel(net)
    with contextlib.redirect_stderr(said):
        for _ in range(3):
            net(torch.randn(samples, 3, 4, 4, generator=torch.Generator().manual_seed(1))).square().mean().backward()
    return list(net)[1].seen[-1], said.getvalue()


@pytest.mark.parametrize("samples", [2, 4])
@pytest.mark.parametrize("how", ["bernoulli_", "floor", "less", "bernoulli"])
def test_each_rank_computes_its_part(how: str, samples: int) -> None:
    assert on_ranks(_run, Block, how, samples) == [(samples // 2, "")] * 2


def test_samples_that_depend_on_each_other_beside_it_are_seen() -> None:
    (seen, said), _ = on_ranks(_run, Centred, "bernoulli_", 4)
    assert seen == 4
    assert "its samples depend on each other" in said
