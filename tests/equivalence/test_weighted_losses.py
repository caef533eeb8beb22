"""Losses that are no plain means over samples take the same steps on two ranks as in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence.conversions import assert_ranks_follow

HEAD = """\
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(36, 4)
kinds = (torch.arange(36) * 7 % 36 > 12).long() * (1 + torch.arange(36) % 2)  # a third of the samples is of kind 0
values = torch.randn(36, 3)


def dice(scores, wanted):
    both = (scores * wanted).sum()
    return 1 - (2 * both + 1) / (scores.sum() + wanted.sum() + 1)


class Focal(nn.Module):
    def __init__(self, ignored):
        super().__init__()
        self.criterion = nn.CrossEntropyLoss(ignore_index=ignored)

    def forward(self, scores, wanted):
        entropy = self.criterion(scores, wanted)
        return (1 - torch.exp(-entropy)) ** 2 * entropy


def per_token(scores, wanted):
    mask = (wanted != 0).float()
    each = functional.cross_entropy(scores, wanted, reduction="none")
    return (each * mask).sum() / mask.sum()


class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x, wanted=None):
        scores = self.layer(x)
        if wanted is None:
            return scores, None
        return scores, functional.cross_entropy(scores, wanted, ignore_index=0)


"""
TRAINING = """\
def train_{number}(model):
    loader = DataLoader(TensorDataset(inputs, kinds, values), batch_size=6, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {setup}
    for epoch in range(2):
        for x, kind, value in loader:
            {loss}
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


"""
#: What is set up before training, and the loss of a step.
LOSSES = {
    "ignored": ("pass", "loss = functional.cross_entropy(model(x), kind, ignore_index=0)"),
    "class weights": (
        "criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.0, 1.0, 3.0]))",
        "loss = criterion(model(x), kind)",
    ),
    "weights and smoothing": (
        "criterion = nn.CrossEntropyLoss(torch.tensor([0.2, 1.0, 3.0]), label_smoothing=0.1)",
        "loss = criterion(model(x), kind)",
    ),
    "negative log-likelihood": (
        "criterion = nn.NLLLoss(ignore_index=1)",
        "loss = criterion(functional.log_softmax(model(x), dim=1), kind)",
    ),
    "masked": ("pass", "loss = per_token(model(x), kind)"),
    "at least one": (
        "pass",
        "mask = (kind == 1).float()\n"
        "            loss = ((model(x) ** 2).mean(1) * mask).sum() / mask.sum().clamp(min=1)",
    ),
    "picked": ("pass", "loss = functional.mse_loss(model(x)[kind > 0], value[kind > 0])"),
    "picked entries": ("pass", "loss = ((model(x) - value) ** 2)[kind == 1].mean()"),
    "places": ("pass", "loss = functional.mse_loss(model(x)[kind.nonzero()[:, 0]], value[torch.where(kind)[0]])"),
    "by the loader's size": (
        "pass",
        "loss = functional.mse_loss(model(x), value, reduction='sum') / loader.batch_size",
    ),
    "chosen": (
        "pass",
        "loss = functional.mse_loss(model(x), value)\n            if loss.item() > 1.0: loss = loss * 0.5\n"
        "            loss = loss * 3 if loss.item() < 0.6 else loss",
    ),
    "products": (
        "pass",
        "loss = (torch.einsum('bi,bj->ij', model(x), value) / len(x)).pow(2).sum() + model(x).mean()",
    ),
    "dice": ("pass", "loss = dice(model(x).sigmoid(), (value > 0).float())"),
    "focal": ("criterion = Focal(0)", "loss = criterion(model(x), kind)"),
    "root": ("pass", "loss = torch.sqrt(functional.mse_loss(model(x), value))"),
    "centred": (
        "pass",
        "scores = model(x)\n            loss = ((scores - scores.mean(0)) ** 2 * value).mean() + scores.mean()",
    ),
    "sum and regulariser": (
        "pass",
        "loss = functional.mse_loss(model(x), value, reduction='sum') / 9 + 0.1 * model.weight.norm()",
    ),
    "regulariser added": (
        "pass",
        "loss = ((model(x) - value) ** 2).sum() / 9\n            loss += 0.1 * model.weight.norm()",
    ),
    "mean and sum": (
        "pass",
        "scores = model(x)\n            loss = functional.mse_loss(scores, value) + scores.exp().sum() / 50",
    ),
    "sum in a tensor": ("pass", "loss = torch.zeros(1)\n            loss += ((model(x) - value) ** 2).sum() / 9"),
    "roots of each sample's mean": (
        "pass",
        "wrong = (model(x) - value) ** 2\n            loss = wrong.mean(dim=list(range(1, wrong.dim()))).sqrt().mean()",
    ),
    "inside the model": ("pass", "scores, loss = model(x, kind)"),
}


def training(number: int, setup: str, loss: str) -> str:
    """A function that trains a model with the loss."""
    return TRAINING.format(number=number, setup=setup, loss=loss)


def script() -> str:
    functions = "".join(training(number, *parts) for number, parts in enumerate(LOSSES.values()))
    models = dict.fromkeys(LOSSES, "nn.Linear(4, 3)") | {"inside the model": "WithLoss()"}
    made = "".join(f"model_{number} = {model}\n" for number, model in enumerate(models.values()))
    calls = "".join(f"train_{number}(model_{number})\n" for number in range(len(models)))
    return f'{HEAD}{functions}{made}{calls}print("accuracy 1")\n'


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_follow_one_process(world_size: int, tmp_path: Path) -> None:
    assert_ranks_follow(script(), tmp_path, world_size)
