"""What is gathered is what the runtime can take apart: tensors and collections of them, with a row for each sample."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import conversion_of

SCRIPT = """\
from collections import namedtuple
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, TensorDataset
from transformers.utils import ModelOutput

Pair = namedtuple("Pair", "logits")


@dataclass
class Out:
    logits: torch.Tensor


@dataclass
class Known(ModelOutput):
    logits: torch.Tensor


def collate(rows):
    return torch.stack([a for a, _ in rows]), torch.tensor([b for _, b in rows])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x)


def scores(out):
    return out


data = TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,)))
loader, val_loader = DataLoader(data, 16, shuffle=True), DataLoader(data, 16, collate_fn=collate)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    model.train()
    for x, y in loader:
        loss = nn.functional.cross_entropy(scores(model(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    preds, labels = [], []
    with torch.no_grad():
        for x, y in val_loader:
            out = model(x)
            preds.extend(scores(out).argmax(1).tolist())
            labels.extend(y.tolist())
    print(sum(a == b for a, b in zip(preds, labels)))
"""
#: An object of this class is what the model returns.
OF = (("return self.layer(x)", "return {}(self.layer(x))"), ("    return out\n", "    return out.logits\n"))
LISTED = (
    ("return torch.stack([a for a, _ in rows]), torch.tensor([b for _, b in rows])",
     "return torch.stack([a for a, _ in rows]), [b for _, b in rows]"),
    ("labels.extend(y.tolist())", "labels.extend(y)"),
)  # fmt: skip
PADDED = (
    ("torch.stack([a for a, _ in rows])", "pad_sequence([a for a, _ in rows], batch_first=True)"),
    ("labels.extend(y.tolist())", "labels.extend((y * x[:, 0]).tolist())"),
)


def converted(*changes: tuple[str, str]) -> str:
    text = SCRIPT
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize(
    ("changes", "gathered"),
    [
        ((), "y, out = rt.gather_batch(val_loader, y, out)"),
        (((OF[0][0], OF[0][1].format("Known")), OF[1]), "y, out = rt.gather_batch(val_loader, y, out)"),
        (((OF[0][0], OF[0][1].format("Pair")), OF[1]), "y, out = rt.gather_batch(val_loader, y, out)"),
        (PADDED[:1], "y, out = rt.gather_batch(val_loader, y, out)"),  # what the model makes of it, and the labels
    ],
)
def test_gathered(changes: tuple[tuple[str, str], ...], gathered: str) -> None:
    conversion = conversion_of(converted(*changes), options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert gathered in conversion.files[0].after.decode()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([(OF[0][0], OF[0][1].format("Out")), OF[1]], "`out` is no tensor, list, tuple or dictionary"),
        (LISTED, "`y` is made of a list of samples"),
        (PADDED, "`x` is padded to another length on each rank"),
        ([("collate_fn=collate", "collate_fn=torch.load('made.pt')")], "it is not seen that the samples of a batch"),
    ],
)
def test_evaluated_whole(changes: list[tuple[str, str]], why: str) -> None:
    conversion = conversion_of(converted(*changes), options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert "gather_batch" not in conversion.files[0].after.decode()
    assert [why in one.message for one in conversion.of(Level.ADVICE) if one.code == "EVAL01"] == [True]
