"""The ranks of one machine without an engine: a process for each, told who it is as torchrun would tell it.

An engine imports torch before it starts anything, which takes as long as all that a rank does until its first
collective. It is needed where ranks start anew, and on several machines.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from distify_runtime.launch.agents import Output
from distify_runtime.launch.config import LaunchConfig, python_command
from distify_runtime.launch.processes import send
from distify_runtime.launchers import LAUNCHED_BY

#: How long the others may go on once a rank has failed. Of ranks that give up for one reason, often only one says it.
LAST_WORDS_SECONDS = 0.3


def one_rank(config: LaunchConfig, worker: Sequence[str], scratch: Path) -> list[str]:
    """What each rank is started with. `-S`: the supervisor has no use for what is installed, its script finds it."""
    return [*python_command(config.python), "-S", *worker]


class Ranks:
    """The processes of all ranks, as one: it ends when all have ended, with the code of one that failed, or 0.

    Where a rank fails, the others are asked to end.
    """

    def __init__(self, config: LaunchConfig, argv: Sequence[str], env: Mapping[str, str], output: Output) -> None:
        self.returncode: int | None = None
        self._failed = 0  # the first code that is not 0
        self._ask_at = 0.0  # when the others of one that failed are asked to end
        self._has_asked = False
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(config.nproc):
                told = {**env, **_told(rank, config.nproc)}
                self._processes.append(
                    subprocess.Popen(argv, env=told, stdout=output[0], stderr=output[1], start_new_session=True)
                )
        except OSError:
            self.kill()
            raise

    def poll(self) -> int | None:
        codes = [process.poll() for process in self._processes]
        self._failed = self._failed or next((code for code in codes if code), 0)
        if None not in codes:
            self.returncode = self._failed
        elif self._failed and not self._has_asked:
            self._ask_at = self._ask_at or time.monotonic() + LAST_WORDS_SECONDS
            if time.monotonic() > self._ask_at:
                self._has_asked = True
                self.send_signal(signal.SIGTERM)
        return self.returncode

    def send_signal(self, sig: int, /) -> None:
        for process in self._processes:
            if process.poll() is None:
                send(-process.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def keep_port() -> socket.socket:
    """A port of this machine that nobody is given while this socket is open, and that rank 0 can listen at.

    Systems deal out no port that somebody is bound to. Where both allow it, as torch's store does, and nobody listens
    yet, another socket may listen there.
    """
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind(("127.0.0.1", 0))
    return keeper


def _told(rank: int, count: int) -> dict[str, str]:
    here = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    here |= {"ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": str(count)}  # said twice, as torchrun does
    return here | {"GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", LAUNCHED_BY: "processes"}  # the group: a node's ranks
