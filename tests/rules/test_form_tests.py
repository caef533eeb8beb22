"""A test of form inside of a model's forward pass is the model's own: each rank may evaluate its share."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import conversion_of

SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv1d(1, 4, 3, padding=1), nn.Conv1d(4, 1, 3, padding=1)

    def forward(self, x, mask=None):
        y = self.up(self.down(x))
        if TEST:
            y = F.interpolate(y, size=x.shape[2:])
        return y


data, val = TensorDataset(torch.randn(24, 1, 8)), TensorDataset(torch.randn(16, 1, 8))
loader, val_loader = DataLoader(data, batch_size=4, shuffle=True), DataLoader(val, batch_size=4)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for epoch in range(3):
    model.train()
    for (x,) in loader:
        optimizer.zero_grad()
        F.mse_loss(model(x), x).backward()
        optimizer.step()
    model.eval()
    rows = []
    with torch.no_grad():
        for (x,) in val_loader:
            out = model(x)
            rows.extend(out.tolist())
    print(epoch, len(rows))
"""
GATHERED = "out = rt.gather_batch(val_loader, out)"


def converted(test: str) -> str:
    conversion = conversion_of(SCRIPT.replace("TEST", test), options=Options(strategy="sharded"))
    assert conversion.strategy is Strategy.SHARDED, [one.message for one in conversion.of(Level.BLOCKING)]
    return conversion.files[0].after.decode() if conversion.files else ""


@pytest.mark.parametrize(
    "test",
    [
        "y.shape != x.shape",
        "y.size() == x.size()",
        "y.shape[2:] != x.shape[2:]",
        "y.size()[-2:] != x.size()[-2:] and not x.dim() == 4",
        "x.size(2) != 8",
        "x.ndim == 3 or x.dtype == torch.float16",
        "len(x.shape) == 3 and len(x.size()) > 2",
        "mask is not None",
    ],
)
def test_what_a_share_has_in_common_with_its_batch(test: str) -> None:
    assert GATHERED in converted(test)


@pytest.mark.parametrize(
    "test",
    [
        "x.shape[0] == 1",
        "len(x) == 1",
        "len(x.unique()) == 1",
        "x.shape == (4, 1, 8)",
        "x.shape[-3] == 1",
        "x.shape[:2] == y.shape[:1]",
        "x.max() > 1",
        "x.unique().shape[0] > 3",
        "x[x > 0].shape != y[y > 0].shape",
        "x.mean().item() > 1 or x.dim() == 3",
    ],
)
def test_what_it_has_not(test: str) -> None:
    assert "gather_batch" not in converted(test)
