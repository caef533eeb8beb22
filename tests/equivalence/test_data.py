"""Each way in which scripts come by their batches: converted, two ranks take the steps of one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.equivalence.conversions import assert_ranks_follow, converted
from tests.equivalence.harness import run_converted

HEAD = """\
import itertools
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, SubsetRandomSampler, TensorDataset, random_split

torch.manual_seed(0)
random.seed(0)
np.random.seed(0)
inputs, targets = torch.randn(64, 4), torch.randn(64, 1)
data = TensorDataset(inputs, targets)
more = TensorDataset(torch.randn(24, 4), torch.randn(24, 1))
sequences = TensorDataset(torch.randn(64, 12, 4), torch.randn(64, 1))
mse = nn.functional.mse_loss


def learn(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

"""
MODEL = """\
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
END = '    print("accuracy", epoch)\n'
BODIES = {
    "a plain loader": """
loader = DataLoader(data, batch_size=8, shuffle=True)
for epoch in range(3):
    for x, y in loader:
        loss = mse(model(x), y)
        learn(loss)
""",
    "a helper that returns a loader": """
def make(dataset, size):
    return DataLoader(dataset, size, True)
loader = make(data, 8)
for epoch in range(3):
    for x, y in loader:
        loss = mse(model(x), y)
        learn(loss)
""",
    "the last batch dropped": """
loader = DataLoader(Subset(data, range(61)), batch_size=8, shuffle=True, drop_last=True)
for epoch in range(3):
    for x, y in loader:
        loss = mse(model(x), y)
        learn(loss)
""",
    "a random split, with workers": """
train, test = random_split(data, [40, 24])
loader = DataLoader(train, batch_size=8, shuffle=True, num_workers=2)
for epoch in range(2):
    for x, y in loader:
        loss = mse(model(x), y)
        learn(loss)
""",
    "a sampler of chosen rows": """
rows = list(range(64))
np.random.shuffle(rows)
loader = DataLoader(data, batch_size=8, sampler=SubsetRandomSampler(rows[:48]))
for epoch in range(3):
    for x, y in loader:
        loss = mse(model(x), y)
        learn(loss)
""",
    "a loader made anew in each epoch, over rows drawn for it": """
for epoch in range(3):
    chosen = random.sample(range(64), 32)
    loader = DataLoader(Subset(data, chosen), batch_size=8, shuffle=True)
    for x, y in loader:
        loss = mse(model(x), y)
        learn(loss)
""",
    "loaders side by side": """
one = DataLoader(data, batch_size=8, shuffle=True)
other = DataLoader(more, batch_size=4, shuffle=True)
for epoch in range(3):
    for (x, y), (u, v) in zip(one, other):
        loss = mse(model(x), y) + 0.5 * mse(model(u), v)
        learn(loss)
""",
    "a loader beside one that begins again": """
one = DataLoader(data, batch_size=8, shuffle=True)
other = DataLoader(more, batch_size=8)
for epoch in range(3):
    for (x, y), (u, v) in zip(one, itertools.cycle(other)):
        loss = mse(model(x), y) + mse(model(u), v)
        learn(loss)
""",
    "next, and a new iterator when there is none": """
loader = DataLoader(data, batch_size=8, shuffle=True)
batches = iter(loader)
for epoch in range(3):
    for step in range(10):
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(loader)
            x, y = next(batches)
        loss = mse(model(x), y)
        learn(loss)
""",
    "a length drawn for each batch": """
loader = DataLoader(sequences, batch_size=8, shuffle=True)
for epoch in range(3):
    for x, y in loader:
        length = random.randint(4, 12)
        loss = mse(model(x[:, :length]).mean(1), y)
        learn(loss)
""",
    "a second forward pass, or none, as it is drawn": """
loader = DataLoader(data, batch_size=8, shuffle=True)
for epoch in range(3):
    for x, y in loader:
        z = model(x)
        if random.random() < 0.5:
            z = model(x + y)
        loss = mse(z, y)
        learn(loss)
""",
    "slices of a permutation": """
for epoch in range(3):
    order = torch.randperm(64)
    for start in range(0, 64, 8):
        rows = order[start:start + 8]
        loss = mse(model(inputs[rows]), targets[rows])
        learn(loss)
""",
    "slices of a permutation that they do not divide": """
for epoch in range(3):
    order = np.random.permutation(57)
    for start in range(0, 57, 8):
        rows = order[start:start + 8]
        loss = mse(model(inputs[rows]), targets[rows])
        learn(loss)
""",
    "slices of a shuffled list": """
rows = list(range(64))
for epoch in range(3):
    random.shuffle(rows)
    for turn in range(8):
        chosen = rows[turn * 8:(turn + 1) * 8]
        loss = mse(model(inputs[chosen]), targets[chosen])
        learn(loss)
""",
    "rows drawn with torch": """
for epoch in range(3):
    for step in range(6):
        rows = torch.randint(0, 64, (8,))
        loss = mse(model(inputs[rows]), targets[rows])
        learn(loss)
""",
    "rows drawn with NumPy": """
xs, ys = inputs.numpy(), targets.numpy()
for epoch in range(3):
    for step in range(6):
        rows = np.random.choice(64, 8, replace=False)
        x, y = torch.from_numpy(xs[rows]), torch.from_numpy(ys[rows])
        loss = mse(model(x), y)
        learn(loss)
""",
    "a function that draws a batch": """
def get_batch(part):
    x, y = (inputs[:50], targets[:50]) if part == "train" else (inputs[50:], targets[50:])
    rows = torch.randint(len(x) - 2, (8,))
    return torch.stack([x[row] for row in rows]), torch.stack([y[row] for row in rows])


for epoch in range(3):
    for step in range(6):
        x, y = get_batch("train")
        loss = mse(model(x), y)
        learn(loss)
""",
    "seeds set in each epoch": """
loader = DataLoader(data, batch_size=8, shuffle=True)
for epoch in range(3):
    torch.manual_seed(epoch)
    part = torch.randperm(64)[:8]
    for x, y in loader:
        loss = mse(model(x), y) + mse(model(inputs[part]), targets[part])
        learn(loss)
""",
    "other data in each turn": """
for turn in range(2):
    drawn = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    loader = DataLoader(drawn, batch_size=8, shuffle=True)
    for epoch in range(2):
        for x, y in loader:
            loss = mse(model(x), y)
            learn(loss)
""",
    "folds": """
order = np.random.permutation(64)
for epoch in range(2):
    held = order[epoch * 32:(epoch + 1) * 32]
    kept = np.setdiff1d(order, held)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Subset(data, kept), batch_size=8, shuffle=True)
    for turn in range(2):
        for x, y in loader:
            loss = mse(model(x), y)
            learn(loss)
    with torch.no_grad():
        print("fold", round(mse(model(inputs[held]), targets[held]).item(), 9))
""",
}


def script(name: str) -> str:
    model = "" if "model = " in BODIES[name] else MODEL
    return HEAD + model + BODIES[name].lstrip() + END


@pytest.mark.parametrize("name", BODIES)
def test_two_ranks_follow_one_process(name: str, tmp_path: Path) -> None:
    assert_ranks_follow(script(name), tmp_path)


UNEQUAL = """\
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    order = torch.randperm(57)
    for start in range(0, 57, 8):
        rows = order[start:start + 8]
        x, y = inputs[rows], targets[rows]
        loss = mse(model(x), y)
        learn(loss)
    print("accuracy", epoch)
"""
LINE = "        loss = mse(model(x), y)\n"


def test_dropout_on_shares_of_unequal_size_leaves_the_order_of_the_samples_alone(tmp_path: Path) -> None:
    """Of the last batch, one sample, one rank has nothing to drop out of: the next epoch's order is still common."""
    path = converted(HEAD + UNEQUAL, tmp_path)
    text = path.read_text()
    assert text.count(LINE) == 1
    seen = '        open(f"seen{rt.rank()}", "a").write(f"{epoch} {start} {x[:, 0].tolist()}\\n")\n'
    path.write_text(text.replace(LINE, seen + LINE))
    run_converted(path, [], 2, tmp_path / "ranks")
    first, second = ((tmp_path / "ranks" / f"seen{rank}").read_text().splitlines() for rank in range(2))
    assert len(first) == len(second) == 24
    for epoch in range(3):
        shares = [json.loads(line.split(" ", 2)[2]) for lines in (first, second)
                  for line in lines if line.startswith(f"{epoch} ")]  # fmt: skip
        assert len({value for share in shares for value in share}) == 57
