"""Recurrent text in columns, with states in lists of tuples and a loss of the script's own by the decoder's weights."""

from __future__ import annotations

from pathlib import Path

from tests.equivalence.conversions import assert_ranks_follow

SCRIPT = """\
import argparse
import os

import torch
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--columns", type=int, default=4)
parser.add_argument("--resume", default="")
args = parser.parse_args()
torch.manual_seed(1)
text = torch.randint(11, (4 * 31,))


def in_columns(text, columns):
    length = len(text) // columns
    return text[: length * columns].view(columns, -1).t().contiguous()


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 6)
        self.memory = nn.ModuleList([nn.LSTM(6, 6) for _ in range(2)])
        self.decoder = nn.Linear(6, 11)

    def forward(self, text, states):
        values = self.words(text)
        later = []
        for number, memory in enumerate(self.memory):
            values, state = memory(values, states[number])
            later.append(state)
        return values.view(values.size(0) * values.size(1), values.size(2)), later, values

    def begin(self, columns):
        weight = next(self.parameters()).data
        return [(weight.new(1, columns, 6).zero_(), weight.new(1, columns, 6).zero_()) for _ in self.memory]


def by_halves(weight, bias, rows, wanted):
    scores = functional.log_softmax(functional.linear(rows, weight, bias), dim=-1)
    total = None
    for low, high in ((0, 4), (4, 11)):
        chosen = (wanted >= low) & (wanted < high)
        if chosen.sum() == 0:
            continue
        part = -scores[chosen].gather(1, wanted[chosen].view(-1, 1)).sum() * (1 if low == 0 else 0.5)
        total = part if total is None else total + part
    return total / len(wanted)


def detached(states):
    if isinstance(states, torch.Tensor):
        return states.detach()
    return tuple(detached(one) for one in states)


def save(path):
    with open(path, "wb") as file:
        torch.save([model, settings], file)


def load(path):
    global model, settings
    with open(path, "rb") as file:
        model, settings = torch.load(file, weights_only=False)


columns = in_columns(text, args.columns)
model = Reader()
settings = {"columns": args.columns}
if args.resume:
    load(args.resume)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)


def train():
    states = model.begin(args.columns)
    for start in range(0, len(columns) - 1, 5):
        length = min(5, len(columns) - 1 - start)
        now, wanted = columns[start : start + length], columns[start + 1 : start + 1 + length].reshape(-1)
        states = detached(states)
        optimizer.zero_grad()
        rows, states, values = model(now, states)
        loss = by_halves(model.decoder.weight, model.decoder.bias, rows, wanted)
        loss = loss + 0.1 * (values[1:] - values[:-1]).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()


for epoch in range(3):
    train()
    save("reader.pt")
load("reader.pt")
with torch.no_grad():
    tested = in_columns(text, 1)
    rows, _, _ = model(tested[:-1], model.begin(1))
    accuracy = (model.decoder(rows).argmax(1) == tested[1:].reshape(-1)).float().mean().item()
print(f"accuracy {accuracy:.4f}")
"""


def test_two_ranks_follow_one_process(tmp_path: Path) -> None:
    assert_ranks_follow(SCRIPT, tmp_path)


TESTED_ON_TRAINING = """\
import torch
from torch import nn

torch.manual_seed(1)
text = torch.randint(11, (124,))
columns = text.view(4, -1).t().contiguous()


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 6)
        self.memory = nn.GRU(6, 6)
        self.decoder = nn.Linear(6, 11)

    def forward(self, text):
        values, _ = self.memory(self.words(text))
        return self.decoder(values)


model = Reader()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(3):
    for start in range(0, len(columns) - 1, 5):
        length = min(5, len(columns) - 1 - start)
        rows = model(columns[start : start + length])
        wanted = columns[start + 1 : start + 1 + length]
        loss = nn.functional.cross_entropy(rows.reshape(-1, 11), wanted.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    accuracy = (model(columns[:-1]).argmax(-1) == columns[1:]).float().mean().item()
print(f"accuracy {accuracy:.4f}")
"""


def test_a_test_on_the_training_text_sees_all_of_it(tmp_path: Path) -> None:
    """A share of the text as a whole would be a share of the test, too."""
    assert_ranks_follow(TESTED_ON_TRAINING, tmp_path)
