"""Samples that are kept for later batches: as the default converts them, two ranks take the steps of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence.conversions import assert_ranks_follow

HEAD = """\
import random
from collections import deque

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

random.seed(0)
torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 4), torch.randn(48, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
POOLS = {
    "the first of a list": ("pool = []", "pool.append(x)\n        old = pool[0]"),
    "any of the last": ("pool = deque(maxlen=3)", "pool.append(x)\n        old = random.choice(pool)"),
    "single samples, in another order": (
        "class Pool:\n"
        "    def __init__(self):\n"
        "        self.rows = []\n\n"
        "    def swap(self, rows):\n"
        "        self.rows += list(rows)\n"
        "        return torch.stack([self.rows.pop(random.randrange(len(self.rows))) for _ in rows])\n\n\n"
        "pool = Pool()",
        "old = pool.swap(x)",
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str, tmp_path: Path) -> None:
    setup, turn = POOLS[name]
    loop = f"""\
{setup}
for epoch in range(2):
    for x, y in loader:
        {turn}
        loss = ((model(x) - old * y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    print("accuracy", (model(data.tensors[0]).sum(1) > 0).double().mean().item(), model.weight.norm().item())
"""
    assert_ranks_follow(f"{HEAD}{loop}", tmp_path)
