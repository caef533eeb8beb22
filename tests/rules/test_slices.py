"""DATA04: a batch that is cut out with a `slice` that has a name."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

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


WINDOWED = """\
import random
import torch
from torch import nn

clips = [(torch.randn(2, 6, 40), torch.randint(4, (40,))) for _ in range(6)]
model = nn.Conv1d(6, 4, 3, padding=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def crop(x, y):
    length = random.randrange(20, 40)
    start = random.randrange(40 - length)
    return {window}, y[start : start + length]


for epoch in range(3):
    for number in range(6):
        x, y = clips[number]
        {turn}
        loss = nn.functional.cross_entropy(model(x)[0].t(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("window", "turn"),
    [
        ("x[:, :, start : start + length]", "x, y = crop(x, y)"),
        ("x.narrow(2, start, length)", "if epoch > 1:\n            x, y = crop(x, y)"),
        ("x.narrow(2, start, length)", "if len(y) > 30:\n            x, y = crop(x, y)\n        x = x * 2"),
    ],
    ids=["of frames", "sometimes", "of long ones"],
)
def test_a_window_of_labels_is_no_batch(window: str, turn: str) -> None:
    conversion = conversion_of(WINDOWED.format(window=window, turn=turn), options=Options())
    assert conversion.strategy is Strategy.SHARED
    assert b"shard_batch" not in conversion.files[0].after


BATCHES = """\
import torch
from torch import nn

rows, labels = torch.randn(64, 6), torch.randint(4, (64,))
model = nn.Linear(6, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for start in range(0, 64, 8):
        {turn}
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "turn",
    [
        "x, y = rows[start : start + 8], labels[start : start + 8]",
        "if epoch:\n            x, y = rows[start : start + 8], labels[start : start + 8]\n"
        "        else:\n            x, y = rows[start : start + 8] * 2, labels[start : start + 8]",
    ],
)
def test_rows_that_are_cut_on_all_ways_are_a_batch(turn: str) -> None:
    conversion = conversion_of(BATCHES.format(turn=turn), options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert b"shard_batch" in conversion.files[0].after


STATED = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="LSTM")
parser.add_argument("--batch", type=int, default=4)
args = parser.parse_args()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = nn.Embedding(20, 8)
        self.layers = nn.LSTM(8, 8)

    def first(self, size):
        weight = next(self.parameters())
        return weight.new_zeros(1, size, 8), weight.new_zeros(1, size, 8)

    def forward(self, x, state):
        return self.layers(self.names(x), state)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = nn.Embedding(20, 8)

    def forward(self, x):
        return self.names(x)


columns = torch.randint(20, (400,)).narrow(0, 0, 396).view(args.batch, -1).t().contiguous()
model = Recurrent() if args.model == "LSTM" else Plain()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if args.model == "LSTM":
    state = model.first(args.batch)
for start in range(0, 90, 5):
    x, y = columns[start : start + 5], columns[start + 1 : start + 6]
    if args.model == "LSTM":
        state = tuple(one.detach() for one in state)
        output, state = model(x, state)
    else:
        output = model(x)
    loss = nn.functional.nll_loss(output.log_softmax(2).transpose(1, 2), y % 8)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("filled", ["", ".zero_()"])
def test_a_state_that_only_some_models_have_fits_the_batch_of_all(filled: str) -> None:
    """Whatever it is filled with, it has a row for each sample."""
    made = STATED.replace("new_zeros(1, size, 8)", f"new_zeros(1, size, 8){filled}")
    conversion = conversion_of(made, options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert b"    state = rt.shard_batch(model.first(args.batch), dim=1)\n" in conversion.files[0].after


IN_ITSELF = """\
import torch
from torch import nn

table = {"key": 0}


def put(key):
    table["in"] = {"of": table, "key": key}


model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 4), torch.randn(32, 1)
for index in range(0, 32, 8):
    put(index)
    table["x"] = x[index : index + 8]
    loss = nn.functional.mse_loss(model(table["x"]), y[index : index + 8])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_batch_in_a_table_that_is_in_itself() -> None:
    """Forward passes are shared; what is in what has no end."""
    assert conversion_of(IN_ITSELF, strategy="auto").strategy is Strategy.SHARED


PLAYED_BESIDE = """\
import random


def drawn():
    deck = list(range(4))
    random.shuffle(deck)
    return deck


model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    x = {batch}
    loss = (model(x) - torch.randn(8, 1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("batch", "strategy"), [
    ("torch.tensor([drawn() for _ in range(8)], dtype=torch.float32)", Strategy.SHARED),
    ("torch.randn(8, 4)", Strategy.SHARDED),
])  # fmt: skip
def test_noise_beside_a_batch_that_is_not_seen_is_not_shared_out_alone(batch: str, strategy: Strategy) -> None:
    before = "import torch\nfrom torch import nn\n" + PLAYED_BESIDE.format(batch=batch)
    conversion = conversion_of(before, options=Options())
    assert conversion.strategy is strategy
    assert ("rt.shard_batch(" in conversion.files[0].after.decode()) == (strategy is Strategy.SHARDED)
