"""What is made of parameters under `no_grad`: no gradients are asked of it, and training goes on as on one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.graph import flows
from distify_runtime.shared.models import shared_model
from ranks import on_ranks
from torch import Tensor, nn


class Conditions(nn.Module):
    """Without its condition a sample has a learned one, the same for all."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.null = nn.Linear(4, 4), nn.Parameter(torch.randn(1, 4))

    def forward(self, samples: Tensor, drop: bool = False) -> Tensor:
        found: Tensor = self.null.expand(len(samples), -1) if drop else self.body(samples)
        return found


class Pairs(Conditions):
    """Both of them, of which one is no view."""

    def forward(self, samples: Tensor, drop: bool = False) -> Any:
        return self.null.expand(len(samples), -1), self.body(samples), self.null[0]


def _mean(found: Any) -> Tensor:
    return torch.stack([one.square().mean() for one in ([found] if isinstance(found, Tensor) else found)]).sum()


def _train(kind: type[Conditions]) -> tuple[list[float], list[float], bool]:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    net, seen = kind(), list[float]()
    rt.data_parallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(4):
        samples = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
        with torch.no_grad():
            seen += [_mean(net(samples, drop=True)).item(), _mean(net(samples)).item()]
            view = net.null.expand(8, -1)
        optimizer.zero_grad()
        (_mean(net(samples, drop=step % 2 == 1)) + _mean(net(view))).backward()
        optimizer.step()
    shared = shared_model(net)
    weights = torch.cat([one.detach().flatten() for one in net.parameters()])
    return seen, weights.tolist(), shared is not None and not shared.given_up


@pytest.mark.parametrize("kind", [Conditions, Pairs])
def test_views_of_parameters(kind: type[Conditions]) -> None:
    ((seen, weights, _),) = on_ranks(_train, kind, ranks=1)
    for found in on_ranks(_train, kind):
        assert found == (pytest.approx(seen, abs=1e-12), pytest.approx(weights, abs=1e-12), True)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda parameter: parameter, True),
        (lambda parameter: parameter.expand(3, -1), True),
        (lambda parameter: parameter * 2, True),
        (lambda parameter: parameter.detach()[:1].requires_grad_(), True),
        (lambda parameter: parameter.detach(), False),
        (lambda parameter: torch.no_grad()(parameter.expand)(3, -1), False),
        (lambda parameter: torch.no_grad()(parameter.mul)(2), False),
        (lambda parameter: torch.no_grad()(parameter.expand)(3, -1) * 2, True),
    ],
)
def test_what_gradients_can_be_asked_of(make: Callable[[Tensor], Tensor], expected: bool) -> None:
    tensor = make(nn.Parameter(torch.randn(1, 4)))
    assert flows(tensor) is expected
    if flows(tensor):
        torch.autograd.grad([tensor], [tensor], [torch.ones_like(tensor)])
