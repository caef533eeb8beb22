"""`torch.is_tensor(value)` asks of what kind something is, and nothing of a batch's samples."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import conversion_of

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, number):
        return {{"x": torch.full((6,), number / 64), "y": number % 3, "name": str(number)}}


def moved(batch):
{body}


loader = DataLoader(Rows(), batch_size=8, shuffle=True)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for batch in loader:
        batch = moved(batch)
        loss = nn.functional.cross_entropy(model(batch["x"]), batch["y"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def strategy(body: str) -> Strategy | None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return conversion_of(SCRIPT.format(body=lines), options=Options()).strategy


@pytest.mark.parametrize(
    "body",
    [
        "return {name: value.to('cpu') if torch.is_tensor(value) else value for name, value in batch.items()}",
        "out = {}\nfor name, value in batch.items():\n    if torch.is_tensor(value):\n"
        "        out[name] = value.to('cpu')\n    else:\n        out[name] = value\nreturn out",
        "return {name: value for name, value in batch.items() if torch.is_tensor(value)}",
    ],
)
def test_what_is_done_to_tensors_alone(body: str) -> None:
    assert strategy(body) is Strategy.SHARDED


@pytest.mark.parametrize(
    "body",
    [
        "return {k: v - v.float().mean(0) if torch.is_tensor(v) and k == 'x' else v for k, v in batch.items()}",
        "if torch.is_tensor(batch['x']):\n    batch['x'] = batch['x'] - batch['x'][0]\nreturn batch",
    ],
)
def test_what_relates_the_samples_of_those(body: str) -> None:
    assert strategy(body) is Strategy.SHARED
