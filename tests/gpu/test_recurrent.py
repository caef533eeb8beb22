"""cuDNN's recurrent layers draw from a stream of their own, that begins with the first call that drops something."""

from __future__ import annotations

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.models import _shared
from ranks import on_ranks
from torch import Tensor, nn

from tests.gpus import on_gpus

pytestmark = on_gpus


class Read(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.inner, self.last = kind(6, 16, 2, dropout=0.5, batch_first=True), nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.inner(x)[0][:, -1])
        return out


def _outputs(kind: type[nn.RNNBase]) -> tuple[list[list[float]], list[str]]:
    """Of eight samples that are alike."""
    torch.manual_seed(0)
    net = Read(kind)
    rt.data_parallel([net])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        out = net(torch.ones(8, 5, 6))
        optimizer.zero_grad()
        out.square().mean().backward()
        optimizer.step()
    return out.tolist(), [one.given_up for one in _shared.values()]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_ranks_drop_each_their_own(kind: type[nn.RNNBase]) -> None:
    (first, given_up), (second, _) = on_ranks(_outputs, kind)
    assert first == second
    assert not any(given_up)
    assert len({tuple(row) for row in first}) == 8
