"""Generators of the script's own that a shared pass draws from: they go on as in one process, whatever is checked."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import numpy as np
import pytest
import torch
from ranks import on_ranks
from torch import Tensor, nn

Drawing = Callable[[], float]


def _of(kind: str) -> tuple[Any, Drawing]:
    """A generator, and what draws a number from it: the third is the first that is below a half."""
    if kind == "random":
        own = random.Random(0)
        return own, own.random
    if kind == "numpy":
        state = np.random.RandomState(3)
        return state, state.rand
    if kind == "numpy's new ones":
        drawn = np.random.default_rng(1)
        return drawn, drawn.random
    generator = torch.Generator().manual_seed(30)
    return generator, lambda: float(torch.rand(1, generator=generator))


class Net(nn.Module):
    """Goes one of two ways by chance, and now and then a third."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.generator, self._draw = _of(kind)
        self.first, self.second, self.third = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, samples: Tensor, given: Drawing | None = None) -> Tensor:
        out: Tensor = self.first(samples)
        number = (given or self._draw)()
        if number < 0.5:
            out = out + self.second(out).relu()
        return self.third(out).tanh() if number < 0.1 else out


class Given(Net):
    """Is given its generator with each batch."""

    def forward(self, samples: Tensor, given: Any = None) -> Tensor:
        return super().forward(samples, given.random if hasattr(given, "random") else given.rand)


def _trained(kind: str, is_given: bool, ranks: bool) -> list[float]:
    torch.manual_seed(0)
    net = (Given if is_given else Net)(kind).double()
    if ranks:
        rt.data_parallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    drawn, found = torch.Generator().manual_seed(1), []
    for _ in range(12):
        samples = torch.randn(8, 4, generator=drawn, dtype=torch.float64)
        loss = (net(samples, net.generator) if is_given else net(samples)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize(
    ("kind", "is_given"),
    [
        *((kind, False) for kind in ("random", "numpy", "numpy's new ones", "torch")),
        *((kind, True) for kind in ("random", "numpy", "numpy's new ones")),
    ],
)
def test_they_go_on_as_in_one_process(kind: str, is_given: bool) -> None:
    wanted = _trained(kind, is_given, False)
    assert on_ranks(_trained, kind, is_given, True) == [pytest.approx(wanted, abs=1e-12)] * 2
