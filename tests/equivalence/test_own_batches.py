"""Batches that a script's own iterators hand out: two ranks take the steps of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence.conversions import assert_ranks_follow

HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
size = 8
inputs, targets = torch.randn(52, 4), torch.randn(52, 1)


class Batches:
    def __init__(self, rows):
        self.rows, self.index = rows, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.index >= len(self.rows):
            self.index = 0
            raise StopIteration
        rows = self.rows[self.index:self.index + size]
        self.index += size
        return torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows])


def generated():
    order = torch.randperm(52)
    for start in range(0, 52, size):
        rows = order[start:start + size]
        yield inputs[rows], targets[rows]


model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05, eps=1e-3)
own = Batches(list(zip(inputs, targets)))
"""
TRAINING = """\
for epoch in range(3):
    for i, (x, y) in enumerate({}):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    print("accuracy", round(sum(nn.functional.mse_loss(model(x), y).item() for x, y in own), 9))
"""


@pytest.mark.parametrize("batches", ["own", "generated()", "zip(inputs.split(size), targets.split(size))"])
def test_batches_of_own_iterators(batches: str, tmp_path: Path) -> None:
    original = assert_ranks_follow(HEAD + TRAINING.format(batches), tmp_path)
    assert len(original.steps) == 3 * 7


CUT = """\
for epoch in range(3):
    order = torch.randperm(52)
    for start in range(0, 52, size):
        x, y = inputs[order[start:start + size]], targets[order[start:start + size]]
        if x.size(0) < size:
            continue
"""
HANDED_ON = """\
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(inputs, targets), batch_size=size, shuffle=True)


def full(batches):
    for x, y in batches:
        if len(x) == size:
            yield x, y


for epoch in range(3):
    for x, y in full(loader):
"""
STEP = TRAINING[TRAINING.index("        loss = ") : TRAINING.index("with torch")]


@pytest.mark.parametrize("batches", [CUT, HANDED_ON])
def test_a_short_batch_is_left_out(batches: str, tmp_path: Path) -> None:
    """By the size of the whole batch: that of a share is always less."""
    original = assert_ranks_follow(f"{HEAD}{batches}{STEP}print('accuracy', loss.item() > 0)\n", tmp_path)
    assert len(original.steps) == 3 * 6


LOADED = (
    HEAD
    + "from torch.utils.data import DataLoader, TensorDataset\n\n"
    + ("loader = DataLoader(TensorDataset(inputs, targets), batch_size=size, shuffle=True)\n")
)


@pytest.mark.parametrize(
    "batches",
    [
        "((x * 0.5, y) for x, y in loader)",
        "(batch for batch in loader if batch[0].mean() > 0)",
        "filter(lambda batch: len(batch[0]) == size, loader)",
    ],
)
def test_batches_of_a_loader_that_are_handed_on(batches: str, tmp_path: Path) -> None:
    training = TRAINING.format(batches).split("with torch")[0]
    assert_ranks_follow(f'{LOADED}{training}print("accuracy", 1)\n', tmp_path)


FOLDED = """\
import torch
from torch import nn

torch.manual_seed(0)
text = torch.arange(700) * 7 % 23 % 9


class Lines:
    def __init__(self, count, length):
        self.count, self.length, self.place = count, length, 0

    def following(self):
        part = text[self.place : self.place + self.count * self.length + 1]
        self.place += self.count * self.length
        if self.place > 500:
            self.place = 0
        return part[:-1].view(self.count, self.length), part[1:].view(self.count, self.length)


model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05, eps=1e-3)
lines = Lines(4, 16)
for step in range(12):
    x, y = lines.following()
    loss = nn.functional.cross_entropy(model(x).view(-1, 9), y.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("accuracy", [round(one.abs().sum().item(), 6) for one in model.parameters()])
"""
STATED = """\
import torch
from torch import nn

torch.manual_seed(0)
size = 8
inputs, targets = torch.randn(48, 5, 1), torch.randn(48, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.LSTM(1, 6, batch_first=True), nn.Linear(6, 1)

    def forward(self, x, state):
        return self.head(self.layer(x, state)[0][:, -1])


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05, eps=1e-3)
for epoch in range(2):
    order = torch.randperm(48)
    for batch in range(6):
        rows = order[batch * size : (batch + 1) * size]
        state = torch.zeros(1, size, 6), torch.zeros(1, size, 6)
        errors = (model(inputs[rows], state) - targets[rows])[:, 0] ** 2
        loss = (errors * torch.linspace(1, 2, size)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print("accuracy", [round(one.abs().sum().item(), 6) for one in model.parameters()])
"""


@pytest.mark.parametrize("script", [FOLDED, STATED], ids=["folded", "of its size"])
def test_batches_that_say_their_size_themselves(script: str, tmp_path: Path) -> None:
    assert len(assert_ranks_follow(script, tmp_path).steps) == 12


NUMBERED = (
    HEAD
    + """\
import numpy as np
from torch.utils.data import BatchSampler, RandomSampler

for epoch in range(3):
    for rows in {}:
        loss = nn.functional.mse_loss(model(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    print("accuracy", round(nn.functional.mse_loss(model(inputs), targets).item(), 9))
"""
)


@pytest.mark.parametrize(
    ("batches", "count"),
    [
        ("BatchSampler(RandomSampler(inputs), size, drop_last=False)", 7),
        ("np.array_split(np.random.RandomState(epoch).permutation(52), 4)", 4),
        ("np.array_split(np.random.RandomState(epoch).permutation(51), 4)", 4),
    ],
)
def test_batches_of_numbers(batches: str, count: int, tmp_path: Path) -> None:
    assert len(assert_ranks_follow(NUMBERED.format(batches), tmp_path).steps) == 3 * count
