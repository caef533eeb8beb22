"""DATA04: a batch that is cut out with a `slice` that has a name."""

from __future__ import annotations

import pytest

from tests.rules.scripts import conversion_of

SCRIPT = """\
import numpy as np
import torch
from torch import nn

inputs, outputs = np.load("inputs.npy"), np.load("outputs.npy")
<head>

def load(index, size, x, y):
    <rows>
    return x[rows], y[rows]


model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for index in range(0, 64, 16):
    x, y = load(index, 16, inputs, outputs)
    loss = nn.functional.mse_loss(model(torch.tensor(x).float()), torch.tensor(y).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LINE = "    x, y = load(index, 16, inputs, outputs)\n"
SHARE = "    x, y = rt.shard_batch(load(index, 16, inputs, outputs))\n"


def after(rows: str, head: str = "") -> str:
    script = SCRIPT.replace("<rows>", rows).replace("<head>", head)
    return conversion_of(script, strategy="auto").files[0].after.decode()


@pytest.mark.parametrize(
    "rows", ["rows = slice(index, index + size)", "start = index\n    rows = slice(start, start + 16)"]
)
def test_a_slice_with_a_name_cuts_as_one_without(rows: str) -> None:
    assert SHARE in after(rows)


@pytest.mark.parametrize(
    ("rows", "head"),
    [
        ("rows = slice(16)", ""),
        ("rows = slice(0, size)", ""),
        ("rows = slice(index, index + size, 2)", ""),
        ("rows = slice(*[index, index + size])", ""),
        ("rows = slice(index, index + size)", "def slice(a, b):\n    return a\n"),
    ],
)
def test_what_is_no_such_slice(rows: str, head: str) -> None:
    text = after(rows, head)
    assert LINE in text
    assert "rt.data_parallel(model)" in text


TEXT = """\
import random
import sys

import torch
from torch import nn

SIZE = <size>
data = torch.arange(500) % 50
model = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    <batch>
    loss = nn.functional.cross_entropy(model(x).view(-1, 50), y.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
STARTS = "starts = torch.randint(len(data) - 8, (SIZE,))\n    "
PIECES = f"{STARTS}x, y = (torch.stack([data[i + k : i + k + 8] for i in starts]) for k in (0, 1))"
READ = "int(sys.argv[1])"


def of_a_text(batch: str, size: str) -> str:
    script = TEXT.replace("<batch>", batch).replace("<size>", size)
    return conversion_of(script, strategy="auto").files[0].after.decode()


@pytest.mark.parametrize("size", ["16", "16 if sys.argv[1:] else 4"])
def test_pieces_of_a_text_are_samples(size: str) -> None:
    assert "    starts = rt.shard_batch(torch.randint(len(data) - 8, (SIZE,)))\n" in of_a_text(PIECES, size)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(PIECES, id="a comprehension"),
        pytest.param(PIECES.replace("stack", "vstack"), id="vstack"),
        pytest.param(
            PIECES.replace("torch.stack(", "torch.tensor(").replace("k + 8]", "k + 8].tolist()"), id="a list of lists"
        ),
        pytest.param(
            f"{STARTS}x, y = [], []\n    for i in starts:\n        x.append(data[i : i + 8])\n"
            "        y.append(data[i + 1 : i + 9])\n    x, y = torch.stack(x), torch.stack(y)",
            id="a loop",
        ),
        pytest.param(
            f"{STARTS}x = torch.stack(list(map(lambda i: data[i : i + 8], starts)))\n    y = (x + 1) % 50",
            id="a function",
        ),
        pytest.param(
            "i, j = random.sample(range(90), 2)\n    x = torch.stack([data[i : i + 8], data[j : j + 8]])\n"
            "    y = (x + 1) % 50",
            id="two of them",
        ),
    ],
)
def test_of_how_many_pieces_a_batch_is_made_is_not_seen(batch: str) -> None:
    """A piece is no batch: cut into shares, each rank would get a part of every sample."""
    text = of_a_text(batch, READ)
    assert "shard_batch" not in text
    assert "rt.data_parallel(model)" in text
