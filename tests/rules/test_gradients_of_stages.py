"""GRAD01: what is frozen once it is trained keeps no other model out of DistributedDataParallel."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import conversion_of

DISTILLED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), batch_size=16, shuffle=True)
teacher, student = nn.Linear(4, 1), nn.Linear(4, 1)


def step(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


optimizer = torch.optim.SGD(teacher.parameters(), lr=0.1)
for x, y in loader:
    step(optimizer, nn.functional.mse_loss(teacher(x), y))
for parameter in {frozen}.parameters():
    parameter.requires_grad_(False)
other = torch.optim.SGD(student.parameters(), lr=0.1)
for x, y in loader:
    {turn}
    step(other, nn.functional.mse_loss(student(x), guess))
"""
LOOKS_ON = "with torch.no_grad():\n        guess = teacher(x)"


@pytest.mark.parametrize(
    ("frozen", "turn", "kept_out"),
    [
        ("teacher", LOOKS_ON, []),
        ("teacher", "guess = teacher(x)", ["teacher"]),  # the wrap would wait for its gradients
        ("nn.Linear(4, 1)", LOOKS_ON, []),
    ],
)
def test_models_of_two_stages(frozen: str, turn: str, kept_out: list[str]) -> None:
    conversion = conversion_of(DISTILLED.format(frozen=frozen, turn=turn))
    said = [one.message for one in conversion.of(Level.ADVICE) if "frozen or thawed" in one.message]
    assert [message.split("`")[1] for message in said] == kept_out
