"""A model that asks for gradients of one of its arguments, which another one was made of: it is computed whole."""

from __future__ import annotations

from typing import Any

import distify_runtime as rt
import pytest
import torch
from ranks import on_ranks
from torch import Tensor, nn


class Attribution(nn.Module):
    """How much each score matters to what was made of the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, scores: Tensor, hidden: Tensor) -> Tensor:
        (found,) = torch.autograd.grad(hidden.square().sum(), scores, create_graph=True, allow_unused=True)
        if found is None:
            return self.gain * scores.abs()
        return self.gain * (scores * found).abs()


def _trained(apart: bool) -> Any:
    torch.manual_seed(0)
    score, mix, model = nn.Linear(4, 3).double(), nn.Linear(3, 3).double(), Attribution()
    rt.data_parallel(score, mix, model)
    optimizer = torch.optim.SGD([*score.parameters(), *mix.parameters(), *model.parameters()], lr=0.1)
    losses = []
    for _ in range(3):
        batch = torch.randn(8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        scores = score(batch)
        hidden = mix(scores.detach() if apart else scores)
        loss = model(scores, hidden).mean() + hidden.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, torch.cat([one.detach().flatten() for one in (*score.parameters(), *mix.parameters())]).tolist()


@pytest.mark.parametrize("apart", [False, True])
def test_it_follows_one_process(apart: bool) -> None:
    """`apart`: where neither was made of the other, the whole call knows of no gradient either."""
    ((losses, weights),) = on_ranks(_trained, apart, ranks=1)
    for found, trained in on_ranks(_trained, apart):
        assert found == pytest.approx(losses, abs=1e-12)
        assert trained == pytest.approx(weights, abs=1e-12)
