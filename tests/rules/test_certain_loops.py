"""A loop of which is written that it has turns leaves what a turn leaves, and nothing of what was there before it."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import conversion_of

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, dims=(8, 8)):
        super().__init__()
        self.layers = nn.ModuleList()
        for i in range(2):
            self.layers.append(nn.Conv2d(3 if i == 0 else dims[i - 1], dims[i], 3, padding=1))
        self.last = nn.Linear(dims[-1], 1)

    def forward(self, x):
        TURNS
            x = self.layers[i](x)
        return self.last(x.mean([-2, -1]))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(64, 3, 8, 8), torch.randn(64, 1)), batch_size=16, shuffle=True)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("turns", "is_seen"),
    [
        ("for i in range(2):", True),
        ("for i in range(0):", False),
        ("for i in range(len(self.layers)):", False),
        ("for i in range(2):\n            if x.dim() == 3:\n                break", False),
    ],
)
def test_how_many_dimensions_are_left(turns: str, is_seen: bool) -> None:
    conversion = conversion_of(SCRIPT.replace("TURNS", turns), options=Options())
    why = [one.message for one in conversion.of(Level.ADVICE) if one.code == "SHARE01"]
    assert (conversion.strategy is Strategy.SHARED) is bool(why)
    assert ["of `x.mean([-2, -1])` it is not seen" in one for one in why] == ([] if is_seen else [True])
