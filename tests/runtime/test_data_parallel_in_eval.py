"""Models that are trained in `eval()`: what they need is shared as it is of any other, and looked at as often."""

from __future__ import annotations

from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.models import shared_model
from ranks import RankFailed, on_ranks
from torch import Tensor, nn


class Graph:
    def __init__(self, nodes: Tensor) -> None:
        self.nodes = nodes


class Net(nn.Module):
    """Of a graph, whose nodes alone are in a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(5, 7), nn.Linear(7, 1)

    def forward(self, graph: Graph) -> Tensor:
        out: Tensor = self.head(self.body(graph.nodes).tanh())
        return out


def _train(steps: int = 30) -> Any:
    torch.manual_seed(1)
    net = Net().double().eval()
    rt.data_parallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        net(Graph(torch.randn(8, 5).double())).square().mean().backward()
        optimizer.step()
    shared = shared_model(net.body)
    return [one.detach() for one in net.parameters()], shared is not None and shared.is_shared


def test_its_parts_are_shared_where_it_cannot_be() -> None:
    ((expected, _),) = on_ranks(_train, ranks=1)
    for found, shared in on_ranks(_train):
        assert shared
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def _evaluates_first() -> Any:
    """With gradients recorded, for nothing, between the steps of a model that is trained by whole batches."""
    torch.manual_seed(1)

    class Either(Net):
        def forward(self, given: Any) -> Tensor:
            return super().forward(given if isinstance(given, Graph) else Graph(given))

    net = Either()
    rt.data_parallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        net.eval()
        net(Graph(torch.randn(8, 5)))
        net.train()
        net(torch.randn(8, 5)).square().mean().backward()
        optimizer.step()
    shared = shared_model(net)
    return shared is not None and not shared.given_up


def test_an_evaluation_that_records_gradients_costs_nothing() -> None:
    assert on_ranks(_evaluates_first) == [True] * 2


def _drifts() -> None:
    class Counting(nn.Module):
        """Of each call a part more of what the batch as a whole has."""

        def __init__(self) -> None:
            super().__init__()
            self.net, self.calls = nn.Linear(5, 1), [0.0]

        def forward(self, samples: Tensor) -> Tensor:
            self.calls[0] += 1
            out: Tensor = self.net(samples) + (self.calls[0] > 8) * samples.mean()
            return out

    net = Counting().eval()
    rt.data_parallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(12):
        net(torch.randn(8, 5)).square().mean().backward()
        optimizer.step()


def test_what_drifts_is_found() -> None:
    with pytest.raises(RankFailed, match="no longer computes in parts what it computes of a whole batch"):
        on_ranks(_drifts)
