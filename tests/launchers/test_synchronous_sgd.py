"""Synchronous SGD with the all-reduce written out, under MPI: the same weights as the one process it comes from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.launchers.starting import environment, needs

pytestmark = pytest.mark.launchers

TRAIN = """\
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
epochs = 3


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 5)
        self.conv2 = nn.Conv2d(4, 8, 3)
        self.fc1 = nn.Linear(32, 24)
        self.fc2 = nn.Linear(24, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(x), dim=1)


images = torch.randn(96, 1, 16, 16)
digits = images.mean((1, 2, 3)).mul(40).long().clamp(-2, 1) + 2
train_loader = DataLoader(TensorDataset(images, digits), batch_size=16)

model = LeNet()
optimizer = optim.SGD(model.parameters(), lr=1e-2, momentum=0.85)

model.train()
for epoch in range(1, epochs + 1):
    for data, target in train_loader:
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
    print("epoch", epoch)

torch.save(model.state_dict(), sys.argv[1])
"""


def trained(folder: Path, *words: str) -> dict[str, torch.Tensor]:
    out = folder / "lenet.pt"
    done = subprocess.run(
        [*words, str(out)], cwd=folder, env=environment(), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "epoch 1\nepoch 2\nepoch 3\n"
    state: dict[str, torch.Tensor] = torch.load(out)
    out.unlink()
    return state


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("synchronous")
    (folder / "train.py").write_text(TRAIN)
    words = [sys.executable, "-m", "distify", "convert", "train.py", "--backend", "allreduce", "--yes"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True, env=environment(), timeout=120)
    return folder


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, torch.Tensor]:
    return trained(folder, sys.executable, "train.py")


def test_gradients_are_averaged_by_lines(folder: Path) -> None:
    text = (folder / "train_dist.py").read_text()
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("rt.")]
    assert "DistributedDataParallel" not in text
    assert [line for line in lines if "gradients" in line], lines


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_under_mpiexec_it_is_the_same_as_one_process(folder: Path, alone: dict[str, torch.Tensor], mpi: str) -> None:
    start = [needs(f"mpiexec.{mpi}"), "-n", "2"]
    if mpi == "openmpi":
        start += ["--oversubscribe", "--mca", "oob_tcp_if_include", "lo"]
        start += ["--allow-run-as-root"] * (os.geteuid() == 0)
    together = trained(folder, *start, sys.executable, "train_dist.py")
    assert together.keys() == alone.keys()
    for name, weights in alone.items():
        assert torch.allclose(together[name], weights, rtol=1e-10, atol=1e-12), name
