"""`--backend allreduce`: models left as they are, gradients averaged by lines, and the same steps as one process.

Buckets are made so small that gradients of these small models travel while the backward pass goes on.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from distify_codemods import Level, Options, Outcome, SourceFile, convert

from tests.equivalence.harness import assert_equivalent, run_converted, run_original
from tests.equivalence.processes import ROOT
from tests.equivalence.test_steps import script

FIXTURES = ("argparse_main", "drawn_batches", "own_updates", "phases", "two_networks", "written_out")
STEPS = (
    "every third turn and the last", "some parts in some turns", "a closure of a sum", "scaled and clipped",
    "an average and a target", "reentrant checkpoints", "another optimizer in mid-run", "frozen and thawed",
    "a step inside a step",
)  # fmt: skip
IMPORT = b"import distify_runtime as rt\n"
EARLY = b"from distify_runtime import overlap\noverlap.SMALLEST_BUCKET = 64\n"
ADVERSARIES = """\
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 4), torch.randn(48, 3))
loader = DataLoader(data, batch_size=8, shuffle=True)
maker = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
judge = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
to_make = torch.optim.Adam(maker.parameters(), lr=0.01, eps=1e-3)
to_judge = torch.optim.Adam(judge.parameters(), lr=0.01, eps=1e-3)
for epoch in range(3):
    for turn, (real, noise) in enumerate(loader):
        made = maker(noise)
        to_judge.zero_grad()
        functional.softplus(-judge(real)).mean().backward()
        functional.softplus(judge(made.detach())).mean().backward()
        to_judge.step()
        if turn % 2 == 1:
            to_make.zero_grad()
            functional.softplus(-judge(made)).mean().backward()
            to_make.step()
print("accuracy 1")
"""


def converted(source: bytes, folder: Path) -> Path:
    conversion = convert(SourceFile("train.py", source), lambda *_: None, Options(backend="allreduce"))
    assert conversion.outcome is Outcome.CONVERTED, [str(one) for one in conversion.of(Level.BLOCKING)]
    text = conversion.files[0].after
    assert b"DistributedDataParallel" not in text
    assert text.count(IMPORT) == 1
    path = folder / "train_dist.py"
    path.write_bytes(text.replace(IMPORT, IMPORT + EARLY))
    return path


def assert_two_ranks_follow(source: bytes, folder: Path) -> None:
    original = folder / "train.py"
    original.write_bytes(source)
    ranks = run_converted(converted(source, folder), [], 2, folder / "dist")
    assert_equivalent(run_original(original, [], folder / "base"), ranks)


@pytest.mark.parametrize("name", FIXTURES)
def test_fixtures(name: str, tmp_path: Path) -> None:
    assert_two_ranks_follow((ROOT / "fixtures" / name / "train.py").read_bytes(), tmp_path)


@pytest.mark.parametrize("name", STEPS)
def test_steps(name: str, tmp_path: Path) -> None:
    assert_two_ranks_follow(script(name).encode(), tmp_path)


def test_two_networks_against_each_other(tmp_path: Path) -> None:
    assert_two_ranks_follow(ADVERSARIES.encode(), tmp_path)
