"""`--scale linear` on two ranks is one process with a batch twice as large, at a rate twice as large (Adam: its root).

The reference is the script itself, with another batch and rate written into it: what the ranks do besides (the order
of their samples, the evaluation, the files) must stay what it is under any scale.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from distify_codemods import Level, Options, Outcome, SourceFile, convert

from tests.equivalence.harness import assert_equivalent, run_converted, run_original
from tests.grid import some

SCRIPT = """\
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Scheduled:
    def __init__(self, inner):
        self.inner = inner

    def zero_grad(self):
        self.inner.zero_grad()

    def step(self):
        self.inner.step()


torch.manual_seed(0)
inputs = torch.randn(64, 4)
labels = (inputs.sum(1) > 0).long()
loader = DataLoader(TensorDataset(inputs, labels), batch_size=<batch>, shuffle=True)
test_loader = DataLoader(TensorDataset(inputs[:31], labels[:31]), batch_size=8)
model = nn.Linear(4, 2)
optimizer = <optimizer>
<schedule>
for epoch in range(10):
    model.train()
    for number, (x, y) in enumerate(loader):
        <rated>
        loss = <loss>
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        <each>
    <after>
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in test_loader:
            correct += (model(x).argmax(1) == y).sum().item()
    print(f"accuracy {correct / 31:.4f}")
torch.save(model.state_dict(), "model.pt")
"""
SGD = "optim.SGD(model.parameters(), lr={rate}, momentum=0.9, nesterov=True)"
ADAM = "optim.Adam(model.parameters(), lr={rate}, eps=1e-3)"
LOSS = "nn.functional.cross_entropy(model(x), y)"
CASES = {
    # name: optimizer, what its rate is multiplied by, other parts of the script
    "sgd": (SGD, 2, {}),
    "adam": (ADAM, 2**0.5, {}),
    "schedule of epochs": (
        SGD, 2, {"schedule": "schedule = optim.lr_scheduler.StepLR(optimizer, 2, 0.5)", "after": "schedule.step()"},
    ),
    "schedule of steps": (
        SGD, 2, {
            "schedule": "schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 10 * len(loader))",
            "each": "schedule.step()",
        },
    ),
    "in a class": (f"Scheduled({SGD})", 2, {}),
    "rate by hand": (SGD, 2, {"after": 'optimizer.param_groups[0]["lr"] *= 0.75'}),
}  # fmt: skip


def written(batch: int, rate: float, optimizer: str, **parts: str) -> str:
    text = SCRIPT.replace("<batch>", str(batch)).replace("<optimizer>", optimizer.format(rate=rate))
    for name, default in {"loss": LOSS, "schedule": "", "rated": "pass", "each": "pass", "after": "pass"}.items():
        text = text.replace(f"<{name}>", parts.get(name, default))
    return text


def follows(
    original: str, script: str, folder: Path, warmup: int, strategy: str = "sharded", scale: str = "linear"
) -> None:
    """Raises AssertionError where the conversion of `script` takes other steps on two ranks than `original`."""
    options = Options(scale=scale, warmup_epochs=warmup, strategy=strategy)
    conversion = convert(SourceFile("train.py", script.encode()), lambda *_: None, options)
    assert conversion.outcome is Outcome.CONVERTED, [str(one) for one in conversion.of(Level.BLOCKING)]
    (folder / "train_dist.py").write_bytes(conversion.files[0].after)
    (folder / "train.py").write_text(original, encoding="utf-8")
    ranks = run_converted(folder / "train_dist.py", [], 2, folder / "dist")
    assert_equivalent(run_original(folder / "train.py", [], folder / "base"), ranks)


@pytest.mark.parametrize("name", CASES)
def test_as_one_process_with_a_larger_batch(name: str, tmp_path: Path) -> None:
    assert_scaled(name, "sharded", tmp_path)


@pytest.mark.parametrize("name", some(CASES, ("adam", "schedule of steps")))
def test_as_one_process_where_forward_passes_are_shared(name: str, tmp_path: Path) -> None:
    assert_scaled(name, "shared", tmp_path)


def assert_scaled(name: str, strategy: str, folder: Path) -> None:
    optimizer, factor, parts = CASES[name]
    large = written(16, 0.05 * factor, optimizer, **parts)
    follows(large, written(8, 0.05, optimizer, **parts), folder, warmup=0, strategy=strategy)


@pytest.mark.parametrize("strategy", ["sharded", "shared"])
def test_warm_up(strategy: str, tmp_path: Path) -> None:
    """Two epochs of ten, by the step: four steps each."""
    by_hand = 'optimizer.param_groups[0]["lr"] = 0.05 * min(1 + (epoch + number / 4) / 2, 2)'
    follows(written(16, 0.05, SGD, rated=by_hand), written(8, 0.05, SGD), tmp_path, warmup=5, strategy=strategy)


PAIRS = "torch.cdist(model(x), model(x)).mean() + nn.functional.cross_entropy(model(x), y, reduction='sum')"


@pytest.mark.parametrize("scale", ["none", "linear"])
def test_whole_batches_are_larger_where_forward_passes_are_shared(scale: str, tmp_path: Path) -> None:
    """The loss is what it is, of all samples: all pairs, and their sum."""
    factor = 2 if scale == "linear" else 1
    large = written(16, 0.001 * factor, SGD, loss=PAIRS)
    follows(large, written(8, 0.001, SGD, loss=PAIRS), tmp_path, warmup=0, strategy="shared", scale=scale)


def test_a_sum_is_a_mean_of_sums(tmp_path: Path) -> None:
    """Twice as many samples are twice the sum; N ranks average what each of them sums up."""
    total = 'nn.functional.cross_entropy(model(x), y, reduction="sum")'
    follows(
        written(16, 0.01, SGD, loss=f"{total} / 2"), written(8, 0.005, SGD, loss=total), tmp_path, warmup=0
    )  # fmt: skip
