"""Launchers for real: one converted script, and what is installed here of MPI and Slurm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import torch

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


_SLURM = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
MpiDefault=none
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={first} CPUs=2
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={second} CPUs=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="session")
def slurm() -> Iterator[dict[str, str]]:
    """A Slurm of two nodes on this machine: the environment of its commands."""
    daemons = [needs(program) for program in ("munged", "slurmctld", "slurmd")]
    needs("srun")
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons want to be root")
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as name:  # a socket's path is short
        folder = Path(name)
        folder.chmod(0o755)
        ports = {"port": 16817, "first": 17001, "second": 17002}
        (folder / "slurm.conf").write_text(_SLURM.format(folder=folder, **ports))
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o400)
        munged = [f"--{what}={folder / file}" for what, file in _MUNGED.items()]
        env = {"SLURM_CONF": str(folder / "slurm.conf")}
        try:
            subprocess.run([daemons[0], "--force", *munged], check=True, capture_output=True, timeout=60)
            for words in ([daemons[1]], [daemons[2], "-N", "n1"], [daemons[2], "-N", "n2"]):
                subprocess.run(words, check=True, capture_output=True, timeout=60, env=environment(**env))
            _wait_for_nodes(env)
            yield env
        finally:
            for file in folder.glob("*.pid"):
                _end(int(file.read_text()))


_MUNGED = {
    "key-file": "key",
    "socket": "munge.socket",
    "pid-file": "munged.pid",
    "log-file": "log",
    "seed-file": "seed",
}


def _wait_for_nodes(env: Mapping[str, str]) -> None:
    for _ in range(120):
        asked = ["sinfo", "-h", "-N", "-t", "idle"]
        done = subprocess.run(asked, env=environment(**env), capture_output=True, text=True, timeout=60)
        if len(done.stdout.splitlines()) == 2:
            return
        time.sleep(0.5)
    pytest.fail("Slurm's nodes do not come up")


def _end(pid: int) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
            for _ in range(50):
                os.kill(pid, 0)
                time.sleep(0.1)
        except ProcessLookupError:
            return
