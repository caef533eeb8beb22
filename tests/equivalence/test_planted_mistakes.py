"""What `distify verify` compares: a conversion with a mistake in it is told, with its step and its usual cause."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from distify_runtime.trace.compare import Check, Tolerance, compare

from tests.equivalence.harness import Trace, run_converted, run_original

SCRIPT = """\
import numpy
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    def __init__(self, size, augment):
        draw = torch.Generator().manual_seed(size)
        self.x = torch.randn(size, 6, generator=draw)
        self.y = (self.x.sum(dim=1) > 0).long()
        self.augment = augment

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        x = self.x[index] + 0.1 * torch.rand(6) if self.augment else self.x[index]
        return x.numpy().astype(numpy.float32), int(self.y[index])


torch.manual_seed(3)
train_loader = DataLoader(Blobs(43, True), batch_size=8, shuffle=True, num_workers=2)
test_loader = DataLoader(Blobs(21, False), batch_size=4)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
for epoch in range(3):
    model.train()
    for x, y in train_loader:
        x = x.float() + 0.1 * torch.randn_like(x)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in test_loader:
            correct += (model(x).argmax(dim=1) == y).sum().item()
    print(f"epoch {epoch}: test accuracy {correct / len(test_loader.dataset):.4f}")
torch.save(model.state_dict(), "model.pt")
"""
#: As `verify` has them: 43 samples leave a last batch of 3, which two ranks do not share evenly.
STEADY = ["--steady", "--steps", "14", "--steps-of-pass", "5"]
STEPS = 14
TOLERANCE = Tolerance(1e-12, 1e-5, 1e-6)


@dataclass(frozen=True)
class Pair:
    converted: str
    original: Trace


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    from distify_codemods import Options, SourceFile, convert  # only these tests need libcst

    folder = tmp_path_factory.mktemp("pair")
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    (new,) = convert(SourceFile("train.py", SCRIPT.encode()), lambda *_: None, Options()).files
    original = run_original(folder / "train.py", [], folder / "base", [*STEADY, "--stands-for", "2"])
    return Pair(new.after.decode(), original)


def checks(pair: Pair, converted: str, folder: Path) -> dict[str, Check]:
    (folder / "train_dist.py").write_text(converted, encoding="utf-8")
    ranks = run_converted(folder / "train_dist.py", [], 2, folder / "dist", STEADY)
    return {check.name: check for check in compare(pair.original, ranks, TOLERANCE)}


def test_the_conversion_takes_the_same_steps(pair: Pair, tmp_path: Path) -> None:
    """With augmentation, noise and dropout, data in float32, real BatchNorm, and a ragged last batch in each pass."""
    found = checks(pair, pair.converted, tmp_path)
    assert not [check for check in found.values() if check.difference]
    assert found["parameters"].largest is not None
    assert found["parameters"].largest < 1e-12
    assert "each as often as in the original, in 5 passes" in found["samples"].found
    assert len(pair.original.steps) == STEPS
    assert pair.original.filled == [3, 3], "the passes end with their last batch"
    assert len(pair.original.evaluation_lines) == 2
    assert (pair.original.steps[0][1] - pair.original.steps[-1][1]).abs().max().item() > 0.1


BARE = """\
class Bare(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)


model = Bare(model)
"""
OWN = "type('Own', (torch.utils.data.RandomSampler,), {'set_epoch': lambda *_: None})(training_dataset)"
MISTAKES = {
    # name: what is replaced, by what; the check that tells it, its step, a part of the message, of the hint
    "set_epoch": (
        "    train_loader.sampler.set_epoch(epoch)\n", "",
        "parameters", 6, "most `", "set_epoch(epoch)` is missing",
    ),
    "sampler": ("rt.TrainingSampler(training_dataset)", OWN, "parameters", 1, "", "not dealt out"),
    "seed": (
        "rt.TrainingSampler(training_dataset)", "torch.utils.data.DistributedSampler(training_dataset, seed=rt.rank())",
        "samples", None, "shuffle by seeds of their own", "one seed for all ranks",
    ),
    "wrap": (
        "model = DistributedDataParallel(model, device_ids=rt.device_ids(model))\n", BARE,
        "ranks agree", 1, "rank 1 against rank 0: after step 1", "gradients are not averaged",
    ),
    "reduced twice": (
        "loss.backward()", "(loss / rt.world_size()).backward()", "parameters", 1, "", "2 times too small",
    ),
    "summed": ("loss.backward()", "(loss * rt.world_size()).backward()", "parameters", 1, "", "2 times too large"),
    "batch": (
        "rt.per_rank_batch_size(8)", "8", "optimizer steps", None, "optimizer steps instead of", "kept the whole batch",
    ),
    "BatchNorm": ("model = rt.convert_sync_batchnorm(model)\n", "", "parameters", 1, "", "BatchNorm"),
    "weights": (
        "optimizer = ", "nn.init.normal_(model.module[0].weight, rt.rank())\noptimizer = ",
        "ranks agree", 1, "`0.weight`", "begin with other weights each",
    ),
    "evaluation": (
        "    correct = rt.all_reduce_sum(correct)\n", "", "printed figures", None, "test accuracy", "sums over ranks",
    ),
    "counted twice": (
        "rt.UnpaddedSampler(evaluation_dataset)",
        "torch.utils.data.DistributedSampler(evaluation_dataset, shuffle=False)",
        "samples", None, "(evaluation): all ranks together read sample 0 twice, the original once",
        "rt.UnpaddedSampler",
    ),
    "counted instead of another": (
        "rt.UnpaddedSampler(evaluation_dataset)", "rt.UnpaddedSampler(evaluation_dataset, [0, *range(20)])",
        "samples", None, "read sample 20 not at all, the original once", "deal out all of them",
    ),
    "print": (
        "from distify_runtime import rank_zero_print as print\n", "",
        "one rank prints", None, "rank 1 printed", "rank 0",
    ),
    "file": (
        'print(f"epoch', 'open("log.txt", "a").close(); print(f"epoch',
        "files", None, "log.txt was written by ranks [0, 1]", "is_main_process",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(name: str, pair: Pair, tmp_path: Path) -> None:
    right, wrong, check, step, message, hint = MISTAKES[name]
    assert pair.converted.count(right) == 1
    found = checks(pair, pair.converted.replace(right, wrong), tmp_path)
    difference = found[check].difference
    assert difference is not None, {one.name: one.difference for one in found.values()}
    assert step is None or difference.step == step
    assert message in difference.message
    assert hint in difference.hint


LOGGED = """\
import logging
import sys
import warnings
logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
"""


@pytest.mark.parametrize(
    ("converted", "result"),
    [
        ("logging.info('test accuracy %s', 0.5)", ""),
        ("logging.info('test accuracy %s', 0.25)", "printed 'test accuracy 0.25', the original 'test accuracy 0.5'"),
        ("pass", "printed 0 lines about evaluations, the original 1"),
        ("print('test accuracy', 0.25, file=sys.stderr)", "printed 'test accuracy 0.25', the original"),
        ("warnings.warn('test accuracy 1'); logging.info('test accuracy 0.5')", ""),
        ("print('\\rtest accuracy 0.1', end='\\r', file=sys.stderr); logging.info('test accuracy 0.5')", ""),
    ],
)
def test_figures_that_go_to_the_log(converted: str, result: str, tmp_path: Path) -> None:
    """By default it is stderr, where progress bars and warnings are, too."""
    original = f"{LOGGED}logging.info('test accuracy %s', 0.5)\n"
    for name, text in (("train.py", original), ("train_dist.py", f"{LOGGED}{converted}\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    trace = run_original(tmp_path / "train.py", [], tmp_path / "base", STEADY)
    ranks = run_converted(tmp_path / "train_dist.py", [], 1, tmp_path / "dist", STEADY)
    (figures,) = (one for one in compare(trace, ranks, TOLERANCE) if one.name == "printed figures")
    told = figures.difference.message if figures.difference is not None else figures.found
    assert told.startswith(result or "1 line about evaluations")


WHOLE = """\
import distify_runtime as rt
import torch
from torch import nn

rt.init_process_group(whole_batches=True)


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x - x.mean(0))


model = Centred()
rt.data_parallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.rand(8, 3)).square().sum().backward()
    optimizer.step()
"""


def test_what_every_rank_computes_whole_is_told(tmp_path: Path) -> None:
    """Its layers are shared in its place: by what the model is given, the work is halved."""
    (tmp_path / "train_dist.py").write_text(WHOLE, encoding="utf-8")
    ranks = run_converted(tmp_path / "train_dist.py", [], 2, tmp_path / "dist", STEADY)
    (told,) = ranks[0].whole
    assert told.startswith("Centred is computed on whole batches by every rank: ")
    assert told.endswith("its parts are shared in its place: layer")
    assert ranks[1].whole == [told]
