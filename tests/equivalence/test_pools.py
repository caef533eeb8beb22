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


BY_SAMPLE = """\
from collections import defaultdict

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 4), torch.randn(48, 1), torch.arange(48))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
hard, losses, flags = set(), defaultdict(list), torch.zeros(48, dtype=torch.bool)
for epoch in range(3):
    for x, y, index in loader:
        each = ((model(x) - y) ** 2).mean(1)
        weights = torch.ones(len(x))
        LOOKS
        loss = (each * weights).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        flags[index[each > 1]] = True
        for key, value in zip(index.tolist(), each.tolist()):
            losses[key].append(value)
            if value > 1:
                hard.add(key)
with torch.no_grad():
    print("accuracy", (model(data.tensors[0]) > 0).double().mean().item())
"""
LOOKS = {
    "flags": "weights[flags[index]] = 2.0",
    "members of a set": "for row, key in enumerate(index.tolist()):\n            if key in hard: weights[row] = 2.0",
    "what was made for a missing key": (
        "for row, key in enumerate(index.tolist()):\n            if sum(losses[key][-2:]) > 1: weights[row] = 2.0"
    ),
    "nothing": "weights[index > 20] = 2.0",
}


@pytest.mark.parametrize("looks", LOOKS)
def test_weights_by_what_earlier_batches_left(looks: str, tmp_path: Path) -> None:
    assert_ranks_follow(BY_SAMPLE.replace("LOOKS", LOOKS[looks]), tmp_path)


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
    print("accuracy", (model(data.tensors[0]).sum(1) > 0).double().mean().item(), round(model.weight.norm().item(), 10))
"""
    assert_ranks_follow(f"{HEAD}{loop}", tmp_path)
