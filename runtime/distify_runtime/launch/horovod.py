"""The horovodrun command for a script that uses Horovod."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distify_runtime.launch.config import LaunchConfig

_HERE = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class Horovod:
    """What horovodrun is told besides the number of ranks. `controller`: "gloo", "mpi" or "", as it was built."""

    hosts: str = ""  # "host1:4,host2:4"
    hostfile: str = ""
    controller: str = ""
    verbose: bool = False
    timeline: str = ""
    interface: str = ""

    def slots(self) -> list[tuple[str, int]]:
        """The hosts, and how many ranks each has room for."""
        lines = [word for word in self.hosts.split(",") if word]
        if self.hostfile:
            text = Path(self.hostfile).read_text(encoding="utf-8")
            lines = [line.split("#")[0].replace(" slots=", ":").strip() for line in text.splitlines()]
        pairs = [line.rpartition(":") for line in lines if line]
        return [(host, int(count)) if count.isdigit() and host else (host or count, 1) for host, _, count in pairs]

    @property
    def is_local(self) -> bool:
        """Whether all ranks are on this machine."""
        here = (*_HERE, socket.gethostname())
        return all(host in here for host, _ in self.slots())

    def options(self, nproc: int) -> list[str]:
        words = ["-np", str(nproc)]
        words += ["--hostfile", self.hostfile] if self.hostfile else ["-H", self.hosts or f"localhost:{nproc}"]
        words += [f"--{self.controller}"] if self.controller else []
        words += ["--verbose"] if self.verbose else []
        words += ["--timeline-filename", os.path.abspath(self.timeline)] if self.timeline else []
        interface = self.interface or ("lo" if self.is_local and sys.platform == "linux" else "")
        words += ["--network-interface", interface] if interface else []
        return [*words, "--disable-cache"] if self.is_local else words  # of checks over ssh, in the home folder


def horovodrun(python: list[str], horovod: Horovod, nproc: int, command: list[str]) -> list[str]:
    # Not the script `horovodrun`: that may be another Python's.
    run = "import sys; from horovod.runner.launch import run_commandline; sys.argv[0] = 'horovodrun'; run_commandline()"
    return [*python, "-c", run, *horovod.options(nproc), *command]


def launch_remotely(config: LaunchConfig, python: list[str], environ: Mapping[str, str]) -> int:
    """Ranks on other machines, too: horovodrun shows what each of them prints. Returns its exit code."""
    assert config.horovod is not None
    words = [*python, *(("-m",) if config.module else ()), config.target, *config.args]
    argv = horovodrun(python, config.horovod, config.nproc, words)
    print(f"distify: {shlex.join(['horovodrun', *argv[len(python) + 2 :]])}", file=sys.stderr, flush=True)
    return subprocess.run(argv, env={**environ, "PYTHONUNBUFFERED": "1"}, check=False).returncode
