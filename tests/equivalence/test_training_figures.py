"""Figures of training that are returned, kept and logged on two ranks are those of one process."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.equivalence.conversions import assert_ranks_follow, converted
from tests.equivalence.harness import Trace, assert_equivalent, meetings, run_converted, run_original
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
        self.meter, self.noted = Meter(), Meter()

    def note(self, value, count):
        self.noted.update(value, count)

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
        self.meter.update(loss.item(), y.size(0))
        self.note(loss.item(), y.size(0))
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
        self.history["meters"].append([one for it in (self.meter, self.noted) for one in (it.sum, it.count)])
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


METERS = """\
import collections
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(58, 6)
kinds = (inputs.sum(1) > 0).long() + (inputs[:, 0] > 1).long()
loader = DataLoader(TensorDataset(inputs, kinds), batch_size=12, shuffle=True)
model = nn.Linear(6, 3)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Meter:
    def __init__(self, window=3):
        self.recent = collections.deque(maxlen=window)
        self.smooth = None
        self.reset()

    def reset(self):
        self.val, self.sum, self.count, self.avg = 0, 0, 0, 0

    def update(self, val, n=1):
        self.val = val
        self.recent.append(val)
        self.smooth = val if self.smooth is None else 0.9 * self.smooth + 0.1 * val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        low, high = min(self.recent), max(self.recent)
        return f"{float(self.val):.6f} {float(self.avg):.6f} {self.smooth:.6f} {low:.6f} {high:.6f} {self.count}"


class Count:
    def __init__(self):
        self.reset()

    def reset(self):
        self.sum = 0

    def update(self, hits):
        self.sum += hits

    def __str__(self):
        return f"{self.sum}.0"


class Progress:
    def __init__(self, *meters):
        self.meters = meters

    def show(self, number):
        print(number, *[str(meter) for meter in self.meters])


def accuracy(scores, wanted):
    return scores.argmax(1).eq(wanted).float().mean(0, keepdim=True) * 100


def train(epoch, history):
    losses, right, hits = Meter(), Meter(), Count()
    progress = Progress(losses, right, hits)
    curve, table = [], {"loss": 0.0, "seen": 0}
    for number, (x, y) in enumerate(loader):
        scores = model(x)
        loss = criterion(scores, y)
        losses.update(loss.item(), x.size(0))
        right.update(accuracy(scores, y)[0], x.size(0))
        hits.update((scores.argmax(1) == y).sum().item())
        curve.append((number, loss.item()))
        table["loss"] += loss.item() * x.size(0)
        table["seen"] += len(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 3 == 2:
            progress.show(number)
            hits.reset()
    history.append({"curve": curve, "table": table, "last": losses.avg, "hits": hits.sum})
    return losses.avg


history = []
for epoch in range(3):
    print("mean", train(epoch, history))
with open("history.json", "w") as file:
    json.dump(history, file)
print("test accuracy", round(history[-1]["last"], 9))
torch.save(model.state_dict(), "model.pt")
"""


@pytest.mark.parametrize("world_size", [2, 3])
def test_figures_that_are_put_together_where_they_are_shown_are_those_of_one_process(
    world_size: int, tmp_path: Path
) -> None:
    """With nonlinear looks at them, and a last batch of fewer samples."""
    source = METERS.replace("58", "54") if world_size == 3 else METERS
    (tmp_path / "train.py").write_text(source)
    script = converted(source, tmp_path)
    assert script.read_text().count("rt.average_figures(") == 2
    assert "all_reduce" not in script.read_text()
    ranks = run_converted(script, [], world_size, tmp_path / "ranks", counted=True)
    original = run_original(tmp_path / "train.py", [], tmp_path / "one")
    assert_equivalent(original, ranks)
    assert figures_of(ranks[0]) == pytest.approx(figures_of(original), rel=0, abs=2e-6)
    kept = [numbers(json.loads((tmp_path / name / "history.json").read_text())) for name in ("ranks", "one")]
    assert kept[0] == pytest.approx(kept[1], rel=0, abs=1e-12)
    between = meetings(tmp_path / "ranks")[0]
    assert between == [0, *[0, 0, 1, 0, 1] * 3]


def figures_of(trace: Trace) -> list[float]:
    return [float(number) for line in trace.lines for number in re.findall(r"\d+\.\d+", line)]


OF_THE_TRAINING_DATA = """\
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(44, 4)
kinds = (inputs.sum(1) > 0).long()
loader = DataLoader(TensorDataset(inputs, kinds), batch_size=8, shuffle=True)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.no_grad()
def evaluate(batches):
    right, total, loss = 0, 0, 0.0
    for x, y in batches:
        scores = model(x)
        right += (scores.argmax(1) == y).sum().item()
        loss += nn.functional.cross_entropy(scores, y, reduction="sum").item()
        total += len(y)
    return right, total, loss


def errors(batches):
    found = []
    with torch.no_grad():
        for x, y in batches:
            found.append(nn.functional.cross_entropy(model(x), y, reduction="none"))
    return torch.cat(found)


def spread(values):
    return [len(values), values.mean().item(), values.std().item()]


history, kept = [], []
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    right, total, loss = evaluate(loader)
    history.append([right, total, loss])
    kept += spread(errors(loader))
    print(f"epoch {epoch}: accuracy {right / total:.4f} of {total}")
with open("history.json", "w") as file:
    json.dump([history, kept], file)
torch.save(model.state_dict(), "model.pt")
"""


def test_figures_of_the_training_data_count_each_sample_once(tmp_path: Path) -> None:
    """They are of all samples where they are made: nothing is left to be put together."""
    assert_ranks_follow(OF_THE_TRAINING_DATA, tmp_path)
    ranks, one = (numbers(json.loads((tmp_path / name / "history.json").read_text())) for name in ("ranks", "one"))
    assert ranks == pytest.approx(one, rel=0, abs=1e-12)
    assert "rt.gather" not in (after := (tmp_path / "train_dist.py").read_text())
    assert "rt.all_reduce" not in after


LEFT_IN_THE_MODEL = """\
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(48, 4)
kinds = (inputs.sum(1) > 0).long()
loader = DataLoader(TensorDataset(inputs, kinds), batch_size=8, shuffle=True)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.entropy = nn.Linear(4, 4), 0.0

    def forward(self, x):
        shares = self.part(x).softmax(1)
        self.entropy = -(shares * shares.log()).sum(1).mean().item()
        return x * shares


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates, self.head, self.log = nn.ModuleList([Gate(), Gate()]), nn.Linear(4, 2), {}

    def forward(self, x, wanted):
        for gate in self.gates:
            x = gate(x)
        scores = self.head(x)
        self.hits = scores.argmax(1).eq(wanted)
        self.log["accuracy"] = self.hits.double().mean().item()
        return nn.functional.cross_entropy(scores, wanted)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=0, threshold=0.05)
history = []
for epoch in range(4):
    accuracies, entropies, right = [], [], 0
    for x, y in loader:
        loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        accuracies.append(model.log["accuracy"])
        entropies.append(sum(gate.entropy for gate in model.gates))
        right += model.hits.sum().item()
    scheduler.step(sum(accuracies) / len(accuracies))
    history += [*accuracies, *entropies, right]
    print(epoch, "accuracy", right / 48)
with open("history.json", "w") as file:
    json.dump(history, file)
torch.save(model.state_dict(), "model.pt")
"""


def test_what_a_forward_pass_leaves_in_the_model_is_that_of_one_process(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LEFT_IN_THE_MODEL)
    script = converted(LEFT_IN_THE_MODEL, tmp_path)
    assert "DistributedDataParallel(model" in script.read_text()
    ranks = run_converted(script, [], 2, tmp_path / "ranks")
    assert_equivalent(run_original(tmp_path / "train.py", [], tmp_path / "one"), ranks)
    kept = [json.loads((tmp_path / name / "history.json").read_text()) for name in ("ranks", "one")]
    assert kept[0] == pytest.approx(kept[1], rel=0, abs=1e-6)
