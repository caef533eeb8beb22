"""Launchers for real: one converted script, and what is installed here of MPI and Slurm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import torch

from tests.launchers.slurms import running_slurm
from tests.launchers.starting import Trained, environment, needs

TRAIN = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, 16, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), 0.01)
for epoch in range(3):
    for x, y in loader:
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.save(model.state_dict(), sys.argv[1])
"""


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("launched")
    (folder / "train.py").write_text(TRAIN)
    words = [sys.executable, "-m", "distify", "convert", "train.py", "--yes"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True, env=environment(), timeout=120)
    return folder


@pytest.fixture(scope="session")
def trained(converted: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    out = tmp_path_factory.mktemp("trained") / "model.pt"

    def train(launcher: Sequence[str], env: Mapping[str, str] | None = None) -> dict[str, torch.Tensor]:
        out.unlink(missing_ok=True)
        words = [*launcher, sys.executable, "train_dist.py", str(out)]
        done = subprocess.run(
            words, cwd=converted, env=environment(**(env or {})), capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        state: dict[str, torch.Tensor] = torch.load(out)
        return state

    return train


@pytest.fixture(scope="session")
def by_torchrun(trained: Trained) -> dict[str, torch.Tensor]:
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    return trained([*run, "--nproc-per-node", "2", "--no-python"], {"GLOO_SOCKET_IFNAME": "lo"})


@pytest.fixture
def machines() -> Iterator[list[list[str]]]:
    """Two networks that are joined by a cable: the words in front of a command in each."""
    ip = needs("ip")
    names = [f"distify{os.getpid()}{letter}" for letter in "ab"]
    cable = [f"d{os.getpid() % 100_000}{letter}" for letter in "ab"]

    def run(*words: str) -> None:
        done = subprocess.run([ip, *words], capture_output=True, text=True, timeout=60)
        if done.returncode:
            pytest.skip(f"no networks of one's own can be made here: {done.stderr.strip()}")

    try:
        for name in names:
            run("netns", "add", name)
        run("link", "add", cable[0], "netns", names[0], "type", "veth", "peer", "name", cable[1], "netns", names[1])
        for number, (name, end) in enumerate(zip(names, cable, strict=True), 1):
            run("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", end)
            run("-n", name, "link", "set", end, "up")
            run("-n", name, "link", "set", "lo", "up")
        yield [[ip, "netns", "exec", name] for name in names]
    finally:
        for name in names:
            subprocess.run([ip, "netns", "del", name], capture_output=True, timeout=60)


@pytest.fixture(scope="session")
def slurm() -> Iterator[dict[str, str]]:
    """A Slurm of two nodes on this machine: the environment of its commands."""
    with running_slurm([([], "127.0.0.1"), ([], "127.0.0.1")]) as env:
        yield env


@pytest.fixture
def slurm_machines(machines: list[list[str]], tmp_path: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """A Slurm whose nodes are machines with a network in between, and know each other by name: the words in front of a
    command on the first of them, and the environment of Slurm's."""
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n10.77.0.1 n1\n10.77.0.2 n2\n")
    known = ["sh", "-c", f'mount --bind {tmp_path}/hosts /etc/hosts && exec "$@"', "sh"]  # of this process alone
    nodes = []
    for number, machine in enumerate(machines, 1):  # not by ip, which hides /sys/fs/cgroup from slurmd
        enter = [needs("nsenter"), f"--net=/run/netns/{machine[-1]}", needs("unshare"), "--mount"]
        nodes.append(([*enter, *known], f"10.77.0.{number}"))
    with running_slurm(nodes) as env:
        yield nodes[0][0], env
