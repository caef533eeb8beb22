"""Beside shared forward passes: lists of numbers become tensors, workspaces grow with their batch, buffers are made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import distify_runtime as rt
import pytest
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


class Remembering(nn.Module):
    """Registers a buffer in its first forward pass, and gives it other tensors in later ones."""

    def __init__(self, follows_batch: bool) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.layer, self.follows_batch = nn.Linear(5, 3), follows_batch

    def forward(self, samples: Tensor) -> Tensor:
        centre = samples.mean(0) if self.follows_batch else torch.full((5,), 0.5)
        if "centre" not in self._buffers:
            self.register_buffer("centre", centre)
        else:
            self.centre = 0.9 * self.centre + 0.1 * centre
        out: Tensor = self.layer(samples - self.centre)
        return out


def _train(make: Callable[[], nn.Module]) -> list[float]:
    torch.set_default_dtype(torch.float64)
    model = make()
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


@pytest.mark.parametrize(
    "make",
    [Noisy, partial(Remembering, follows_batch=False), partial(Remembering, follows_batch=True)],
    ids=["workspace", "new buffer", "new buffer, of the batch"],
)
def test_workspaces_and_lists_of_numbers(make: Callable[[], nn.Module]) -> None:
    alone = _train(make)
    for found in on_ranks(partial(_train, make)):
        assert max(abs(a - b) for a, b in zip(found, alone, strict=True)) < 1e-12
