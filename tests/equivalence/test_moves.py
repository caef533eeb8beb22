"""A model that is moved or cast after it was wrapped trains apart on a GPU; `distify verify` sees it without one."""

from __future__ import annotations

from pathlib import Path

import pytest
from distify_runtime.trace.compare import Check, Tolerance, compare

from tests.equivalence.harness import Trace, run_converted, run_original

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Solver:
    def __init__(self, loader):
        self.loader = loader
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.build_model()

    def build_model(self):
        self.model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.model.to(self.device)

    def train(self):
        for epoch in range(2):
            for x, y in self.loader:
                loss = nn.functional.mse_loss(self.model(x.to(self.device)), y.to(self.device))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


torch.manual_seed(0)
Solver(DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 1)), batch_size=16, shuffle=True)).train()
"""
MOVE = "        self.model.to(self.device)\n"
WRAP = "        self.model = DistributedDataParallel(self.model, device_ids=rt.device_ids(self.model))\n"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("original")
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    return run_original(folder / "train.py", [], folder / "base", ["--steady"])


def checks(original: Trace, text: str, folder: Path) -> dict[str, Check]:
    (folder / "train_dist.py").write_text(text, encoding="utf-8")
    ranks = run_converted(folder / "train_dist.py", [], 2, folder / "dist", ["--steady"])
    return {check.name: check for check in compare(original, ranks, Tolerance(1e-12, 1e-5, 1e-6))}


def converted() -> str:
    from distify_codemods import Options, SourceFile, convert  # only these tests need libcst

    (new,) = convert(SourceFile("train.py", SCRIPT.encode()), lambda *_: None, Options()).files
    text = new.after.decode()
    assert text.count(MOVE) == text.count(WRAP) == 1
    assert text.index(MOVE) < text.index(WRAP)
    return text


@pytest.mark.parametrize("again", ["to(self.device)", "float()", "to(torch.float32)", "train()"])
def test_a_model_that_is_moved_before_it_is_wrapped(again: str, original: Trace, tmp_path: Path) -> None:
    """Where it is already it may be moved once more."""
    text = converted().replace(WRAP, f"{WRAP}        self.model.{again}\n")
    assert not [check for check in checks(original, text, tmp_path).values() if check.difference]


@pytest.mark.parametrize(
    "move",
    ["to(self.device)", "cpu().to(self.device)", "double()", "to(torch.float64)", "to(self.device, torch.float64)"],
)
def test_a_model_that_is_moved_behind_its_wrap(move: str, original: Trace, tmp_path: Path) -> None:
    before = MOVE if move.startswith("cpu") else ""
    text = converted().replace(MOVE, before).replace(WRAP, f"{WRAP}        self.model.{move}\n")
    found = checks(original, text, tmp_path)
    apart, said = found["ranks agree"].difference, found["the watch"].difference
    assert apart is not None
    assert apart.step == 1
    assert said is not None
    for told in (said.message, apart.hint):
        assert "of a wrapped model was moved, cast or made anew (" in told
        assert "train_dist.py:" in told


def test_the_original_is_the_same_with_moves_and_without(original: Trace, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace(MOVE, ""), encoding="utf-8")
    other = run_original(tmp_path / "train.py", [], tmp_path / "base", ["--steady"])
    assert all(one[1].equal(two[1]) for one, two in zip(original.steps, other.steps, strict=True))
