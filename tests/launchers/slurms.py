"""Starts a Slurm of two nodes, for real, and ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.launchers.starting import environment, needs

_CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost({controller})
SlurmUser=root
SlurmctldPort=16817
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
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_NODE = "NodeName=n{number} NodeHostname=localhost NodeAddr={address} Port=1700{number} CPUs=2"
_MUNGED = {
    "key-file": "key",
    "socket": "munge.socket",
    "pid-file": "munged.pid",
    "log-file": "log",
    "seed-file": "seed",
}


@contextlib.contextmanager
def running_slurm(nodes: Sequence[tuple[list[str], str]]) -> Iterator[dict[str, str]]:
    """`nodes`: the words in front of a command on each node, and its address; the controller is on the first. Yields
    the environment of Slurm's commands; skips the test where there is no Slurm."""
    munged, controller, daemon = [needs(program) for program in ("munged", "slurmctld", "slurmd")]
    needs("srun")
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons want to be root")
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as name:  # a socket's path is short
        folder = Path(name)
        folder.chmod(0o755)
        lines = [_NODE.format(number=number, address=address) for number, (_, address) in enumerate(nodes, 1)]
        said = _CONFIGURATION.format(folder=folder, controller=nodes[0][1], nodes="\n".join(lines))
        (folder / "slurm.conf").write_text(said)
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o400)
        env = {"SLURM_CONF": str(folder / "slurm.conf")}
        starts = [[munged, "--force", *(f"--{what}={folder / file}" for what, file in _MUNGED.items())]]
        starts += [[*nodes[0][0], controller]]
        starts += [[*front, daemon, "-N", f"n{number}"] for number, (front, _) in enumerate(nodes, 1)]
        try:
            for words in starts:
                subprocess.run(words, check=True, capture_output=True, timeout=60, env=environment(**env))
            _wait_for_nodes(nodes[0][0], len(nodes), env)
            yield env
        finally:
            for file in folder.glob("*.pid"):
                _end(int(file.read_text()))


def _wait_for_nodes(front: Sequence[str], count: int, env: Mapping[str, str]) -> None:
    for _ in range(120):
        asked = [*front, "sinfo", "-h", "-N", "-t", "idle"]
        done = subprocess.run(asked, env=environment(**env), capture_output=True, text=True, timeout=60)
        if len(done.stdout.splitlines()) == count:
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
