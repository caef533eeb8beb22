"""Tensors that belong to no module, trained by an optimizer of torch's: two ranks follow one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence.conversions import assert_ranks_follow

OF_A_LOADER = """\
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
inputs = torch.randn(60, 5)
loader = DataLoader(TensorDataset(inputs, inputs.argmax(1) % 3), batch_size=12, shuffle=True)
weight = torch.randn(5, 3, requires_grad=True)
bias = torch.zeros(3, requires_grad=True)
trained = [weight, bias]
optimizer = torch.optim.SGD(trained, lr=0.5, momentum=0.9)
for epoch in range(3):
    for x, y in loader:
        loss = functional.cross_entropy(x @ weight + bias, y)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 0.5)
        optimizer.step()
torch.save({"weight": weight, "bias": bias}, "linear.pt")
with torch.no_grad():
    right = (inputs @ weight + bias).argmax(1) == inputs.argmax(1) % 3
print(f"accuracy {right.double().mean().item():.4f}")
"""
BY_HAND = """\
import torch

torch.manual_seed(1)
data = torch.rand(80, 6)


def reduced(rows, first, second):
    return torch.relu(rows @ first.T) @ second.T


first = (torch.rand(3, 6) - 0.5).requires_grad_()
second = torch.nn.Parameter(torch.rand(6, 3) - 0.5)
optimizer = torch.optim.Adam([first, second], lr=0.01, eps=1e-3)
for step in range(12):
    rows = data[torch.randint(0, len(data), (16,))]
    loss = ((reduced(rows, first, second) - rows).abs() ** 3).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    close = (reduced(data, first, second) - data).abs() < 0.4
print(f"accuracy {close.double().mean().item():.4f}")
"""


@pytest.mark.parametrize("script", [OF_A_LOADER, BY_HAND])
def test_two_ranks_follow_one_process(script: str, tmp_path: Path) -> None:
    assert_ranks_follow(script, tmp_path)
