"""Losses that relate the samples of a batch to each other take the same steps on two ranks as in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence.conversions import assert_ranks_follow
from tests.equivalence.test_weighted_losses import HEAD, training
from tests.grid import slow

OWN = """\
def info_nce(one, other, temperature=0.5):
    one, other = functional.normalize(one, dim=1), functional.normalize(other, dim=1)
    return functional.cross_entropy(one @ other.T / temperature, torch.arange(len(one)))


class NTXent(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, views):
        views = functional.normalize(views, dim=1)
        size = len(views) // 2
        similar = views @ views.T / self.temperature
        similar = similar.masked_fill(torch.eye(len(views), dtype=torch.bool), -1e9)
        return functional.cross_entropy(similar, torch.cat([torch.arange(size) + size, torch.arange(size)]))


def hardest(points, labels):
    distances = torch.cdist(points, points)
    same = labels[:, None] == labels[None]
    farthest = (distances * same).max(1)[0]
    nearest = distances.masked_fill(same, 1e9).min(1)[0]
    return (farthest - nearest + 1).clamp(min=0).mean()


"""
#: What is set up before training, and the loss of a step.
LOSSES = {
    "two views": ("pass", "loss = info_nce(model(x), model(x + 0.1 * value.sum(1, keepdim=True)))"),
    "joined views": ("criterion = NTXent(0.5)", "loss = criterion(model(torch.cat([x, x + 0.1])))"),
    "hard triplets": ("pass", "loss = hardest(model(x), kind)"),
    "variance": (
        "pass",
        "scores = model(x)\n            loss = (1 - scores.std(0)).clamp(min=0).mean() + scores.mean()",
    ),
    "norm": ("pass", "loss = (model(x) - value).norm()"),
    "sorted": ("pass", "loss = (model(x).sort(0)[0] - value.sort(0)[0]).pow(2).mean()"),
    "covariance": (
        "pass",
        "scores = model(x)\n            scores = scores - scores.mean(0)\n"
        "            loss = (scores.T @ scores / (len(scores) - 1)).pow(2).sum()",
    ),
    "neighbours": ("pass", "scores = model(x)\n            loss = (scores[1:] - scores[:-1]).pow(2).mean()"),
    "normalised": (
        "pass",
        "loss = functional.cross_entropy(functional.batch_norm(model(x), None, None, training=True), kind)",
    ),
    "first of some": ("pass", "loss = (model(x)[kind > 0][:3] ** 2).sum() / len(x)"),
    "if there are any": (
        "pass",
        "scores = model(x)\n            loss = functional.mse_loss(scores, value)\n"
        "            if (value[:, 0] > 1).any(): loss = loss + (scores[value[:, 0] > 1] ** 2).sum() / len(x)",
    ),
    "a ratio beside what is kept": (
        "bank = torch.zeros(3)",
        "scores = model(x)\n            weights = 1 + bank[kind]\n"
        "            loss = (weights * scores.square().sum(1)).sum() / (weights.sum() + 0.5)\n"
        "            bank.index_add_(0, kind, scores.detach().abs().sum(1))",
    ),
    "by a branch": (
        "pass",
        "scores = model(x)\n            loss = scores.std() if kind.sum() > 3 else functional.mse_loss(scores, value)",
    ),
}
#: In a step of its own form.
TWICE = """\
def train_twice(model):
    loader = DataLoader(TensorDataset(inputs, kinds, values), batch_size=6, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, kind, value in loader:
        optimizer.zero_grad()
        scores = model(x)
        first = functional.mse_loss(scores, value)
        first.backward(retain_graph=True)
        (first + scores.norm()).backward()
        optimizer.step()


"""


def script() -> str:
    functions = "".join(training(number, *parts) for number, parts in enumerate(LOSSES.values()))
    made = "".join(f"model_{number} = nn.Linear(4, 3)\n" for number in range(len(LOSSES)))
    calls = "".join(f"train_{number}(model_{number})\n" for number in range(len(LOSSES)))
    calls += "train_twice(nn.Linear(4, 3))\n"
    return f'{HEAD}{OWN}{functions}{TWICE}{made}{calls}print("accuracy 1")\n'


@pytest.mark.parametrize("world_size", [2, pytest.param(3, marks=slow)])
def test_ranks_follow_one_process(world_size: int, tmp_path: Path) -> None:
    assert_ranks_follow(script(), tmp_path, world_size)
    assert (tmp_path / "train_dist.py").read_text(encoding="utf-8").count("rt.gather_samples(") >= len(LOSSES)


#: Several rows for each sample, flattened inside the model and before it: of each sample one behind the other, or of
#: each step.
FLATTENED = """\
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
texts = torch.randint(7, (48, 6))
loader = DataLoader(TensorDataset(texts[:, :-1], texts[:, 1:]), batch_size=12, shuffle=True)


class Reader(nn.Module):
    def __init__(self, by_step):
        super().__init__()
        self.words = nn.Embedding(7, 5)
        self.memory = nn.GRU(5, 6, batch_first=not by_step)
        self.scores = nn.Linear(6, 7)

    def forward(self, text):
        states, _ = self.memory(self.words(text))
        return self.scores(states).view(-1, 7)


def train(model, by_step):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for text, following in loader:
            <turn>
            wanted = following.reshape(-1)
            rows = model(text)
            loss = functional.cross_entropy(rows, wanted) + (rows[1:] - rows[:-1]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


train(Reader(<by_step>), <by_step>)
print("accuracy 1")
"""


@pytest.mark.parametrize(
    ("turn", "by_step", "gathered"),
    [
        ("pass", False, "gather_samples(wanted, rows, samples=len(text))"),
        ("text, following = text.t(), following.t()", True,
         "gather_samples(wanted, rows, samples=text.size(1), by_step=True)"),
    ],
    ids=["samples", "steps"],
)  # fmt: skip
def test_flattened_rows(turn: str, by_step: bool, gathered: str, tmp_path: Path) -> None:
    assert_ranks_follow(FLATTENED.replace("<turn>", turn).replace("<by_step>", str(by_step)), tmp_path)
    assert gathered in (tmp_path / "train_dist.py").read_text(encoding="utf-8")
