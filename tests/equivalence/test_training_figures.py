"""Figures of training that are returned, kept and logged on two ranks are those of one process."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.equivalence.conversions import assert_ranks_follow
from tests.equivalence.harness import Trace, run_converted, run_original
from tests.equivalence.processes import ROOT
from tests.equivalence.test_fixtures import convert_fixture

SCRIPT = """\
import csv
import json
import math
from collections import defaultdict

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(48, 6)
kinds = (inputs.sum(1) > 0).long() + (inputs[:, 0] > 1).long()
loader = DataLoader(TensorDataset(inputs, kinds), batch_size=12, shuffle=True)
model = nn.Linear(6, 3)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, count=1):
        self.sum += value * count
        self.count += count

    @property
    def average(self):
        return self.sum / self.count


class Tracker:
    def __init__(self, *keys):
        self.total = {key: 0.0 for key in keys}
        self.count = {key: 0 for key in keys}

    def update(self, key, value, count=1):
        self.total[key] += value * count
        self.count[key] += count

    def result(self):
        return {key: self.total[key] / self.count[key] for key in self.total}


def accuracy(scores, wanted):
    with torch.no_grad():
        return torch.sum(scores.argmax(1) == wanted).item() / len(wanted)


def confusion(found, wanted):
    table = torch.zeros(3, 3)
    for one, other in zip(wanted, found):
        table[one, other] += 1
    return table.tolist()


class Trainer:
    def __init__(self):
        self.history = defaultdict(list)
        self.steps = []

    def step(self, x, y):
        scores = model(x)
        loss = criterion(scores, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        self.running += loss.item()
        self.right += (scores.argmax(1) == y).sum().item()
        self.seen += y.size(0)
        self.steps.append({"loss": loss.item(), "perplexity": math.exp(loss.item())})
        return loss, scores

    def epoch(self, meter, tracker):
        self.running, self.right, self.seen = 0.0, 0, 0
        total, smooth, found, wanted = 0.0, None, [], []
        for x, y in loader:
            loss, scores = self.step(x, y)
            meter.update(loss.item(), x.size(0))
            tracker.update("loss", loss.item())
            tracker.update("accuracy", accuracy(scores, y))
            found.extend(scores.argmax(1).tolist())
            wanted.extend(y.tolist())
            smooth = loss.item() if smooth is None else 0.9 * smooth + 0.1 * loss.item()
            total += loss
        self.history["confusion"].append(confusion(found, wanted))
        self.history["smooth"].append(smooth)
        self.history["last"].append(loss.item())
        self.history["attributes"].append([self.running, self.right, self.seen])
        self.history["tracker"].append(tracker.result())
        return total.item() / len(loader), meter.average


trainer = Trainer()
with open("log.csv", "w") as file:
    writer = csv.writer(file)
    for epoch in range(2):
        mean, average = trainer.epoch(Meter(), Tracker("loss", "accuracy"))
        writer.writerow([epoch, mean, average])
        print("test accuracy", trainer.right / trainer.seen)
with open("history.json", "w") as file:
    json.dump({"history": trainer.history, "steps": trainer.steps}, file)
torch.save(model.state_dict(), "model.pt")
"""


def numbers(value: object) -> list[float]:
    if isinstance(value, (dict, list)):
        parts = value.values() if isinstance(value, dict) else value
        return [number for part in parts for number in numbers(part)]
    assert isinstance(value, (int, float))
    return [float(value)]


def left_in(folder: Path) -> list[float]:
    rows = [line.split(",") for line in (folder / "log.csv").read_text().splitlines()]
    return numbers([json.loads((folder / "history.json").read_text()), [[float(one) for one in row] for row in rows]])


@pytest.mark.parametrize("world_size", [2, 3])
def test_kept_figures_are_those_of_one_process(world_size: int, tmp_path: Path) -> None:
    assert_ranks_follow(SCRIPT, tmp_path, world_size)
    assert left_in(tmp_path / "ranks") == pytest.approx(left_in(tmp_path / "one"), rel=0, abs=1e-12)


def test_meters_of_a_training_loop_show_the_global_batch(tmp_path: Path) -> None:
    """Losses and accuracies that only go to the screen, by way of meters."""
    script = ROOT / "fixtures" / "stripes" / "train.py"
    ranks = run_converted(convert_fixture("stripes", tmp_path), [], 2, tmp_path / "ranks")
    original = run_original(script, [], tmp_path / "one")
    shown = [line for line in without_times(original) if line.startswith("Epoch")]
    assert len(shown) == 5 * 4
    assert without_times(ranks[0]) == without_times(original)


def without_times(trace: Trace) -> list[str]:
    return [re.sub(r"Time +[\d.]+ \( *[\d.]+\)", "", line) for line in trace.lines]
