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
