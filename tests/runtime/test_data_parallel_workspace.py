"""Beside shared forward passes: lists of numbers become tensors, workspaces grow with their batch."""

from __future__ import annotations

import distify_runtime as rt
import torch
from ranks import on_ranks
from torch import Tensor, nn


class Noisy(nn.Module):
    """Keeps a workspace of its batch's size in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.layer, self.room = nn.Linear(5, 3), torch.empty(0)

    def forward(self, samples: Tensor) -> Tensor:
        self.room.resize_(samples.shape).fill_(0.5)
        out: Tensor = self.layer(samples + self.room)
        return out


def _train() -> list[float]:
    torch.set_default_dtype(torch.float64)
    model = Noisy()
    rt.data_parallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for step in range(4):
        samples = torch.rand(8, 5, generator=torch.Generator().manual_seed(step))
        loss = model(samples).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [float(one) for one in torch.tensor([[one] for one in losses])]  # each of them is a tensor


def test_workspaces_and_lists_of_numbers() -> None:
    alone = _train()
    for found in on_ranks(_train):
        assert found == alone or max(abs(a - b) for a, b in zip(found, alone, strict=True)) < 1e-12
