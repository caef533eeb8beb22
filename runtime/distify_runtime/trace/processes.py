"""Starts a command once per rank, as a launcher would, and waits for all of them or for the first failure."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

LAUNCHER_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
RUNTIME = Path(__file__).resolve().parents[2]
GRACE = 5.0  # seconds that the other ranks have left once one has failed
_TAIL = 20_000  # characters of a log that are read


class Process(Protocol):
    """What is asked of a rank: a part of `subprocess.Popen`."""

    returncode: int | None

    def poll(self) -> int | None: ...
    def kill(self) -> None: ...
    def wait(self) -> int: ...


#: (words behind `python`, working directory, environment, stdout, stderr, rank) -> the process
Start = Callable[[list[str], Path, dict[str, str], IO[bytes], IO[bytes], int], Process]


class RunError(AssertionError):
    """A process failed or hung; the message has its last lines of stderr. `codes`: None where one was stopped."""

    def __init__(self, codes: Sequence[int | None], logs: Path) -> None:
        self.codes = list(codes)
        self.logs = logs
        super().__init__("\n".join(self._of_rank(rank, code) for rank, code in enumerate(codes) if code != 0))

    def _of_rank(self, rank: int, code: int | None) -> str:
        end = "was stopped" if code is None else f"ended with {code}"
        return f"rank {rank} {end}:\n{read_log(self.logs / f'{rank}.err')[-3000:]}"


@dataclass(frozen=True)
class Ranks:
    """`python COMMAND` once per rank in `workdir`. A world size of 0 means plain `python`, without a launcher.

    `{rank}` in the command becomes the rank. stdout and stderr are kept in `logs`, as `0.out` and `0.err`.
    env: what is added to this process's environment. `limit`: seconds, after which whatever runs is stopped. `places`:
    a working folder for each rank, where they do not share `workdir`.
    """

    command: Sequence[str]
    world_size: int
    workdir: Path
    logs: Path
    env: Mapping[str, str] = field(default_factory=dict)
    limit: float = 120.0
    grace: float = GRACE
    worlds: Sequence[Mapping[str, str]] = ()  # what a launcher sets for each rank; empty: as torchrun would
    places: Sequence[Path] = ()

    def run(self, start: Start | None = None, watch: Callable[[], None] = lambda: None) -> list[str]:
        """Returns each rank's stdout; `watch` is called again and again meanwhile. RunError unless all end with 0."""
        self.workdir.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        worlds = self.worlds or torchrun(self.world_size)
        processes: list[Process] = []
        try:
            for rank, world in enumerate(worlds):
                words = [word.replace("{rank}", str(rank)) for word in self.command]
                with (self.logs / f"{rank}.out").open("wb") as out, (self.logs / f"{rank}.err").open("wb") as err:
                    place, env = (*self.places, *[self.workdir] * (rank + 1))[rank], self._environment(world)
                    processes.append((start or _start)(words, place, env, out, err, rank))
            codes = self._wait(processes, watch)
        finally:
            for process in processes:
                if process.returncode is None:
                    process.kill()
                    process.wait()
        if any(code != 0 for code in codes):
            raise RunError(codes, self.logs)
        return [read_log(self.logs / f"{rank}.out", whole=True) for rank in range(len(processes))]

    def _environment(self, world: Mapping[str, str]) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if name not in LAUNCHER_VARIABLES}
        env["PYTHONPATH"] = os.pathsep.join([str(RUNTIME), *filter(None, [env.get("PYTHONPATH")])])
        env["OMP_NUM_THREADS"] = "1"
        env.setdefault("PYTHONHASHSEED", "0")  # one order of sets in all processes
        env["CUDA_VISIBLE_DEVICES"] = ""
        env["DISTIFY_WATCH"] = "warn"  # what it says is one of the things that are compared
        if sys.platform == "linux":
            env["GLOO_SOCKET_IFNAME"] = "lo"  # Gloo would else listen on the address that the host's name has
        return {**env, **world, **self.env}

    def _wait(self, processes: Sequence[Process], watch: Callable[[], None]) -> list[int | None]:
        """Exit codes; None for a process still running at the limit, or `grace` seconds after another's failure."""
        deadline = time.monotonic() + self.limit
        failed = False
        while True:
            codes = [process.poll() for process in processes]
            if None not in codes or time.monotonic() > deadline:
                return codes
            if any(codes) and not failed:
                failed, deadline = True, min(deadline, time.monotonic() + self.grace)
            watch()
            time.sleep(0.02)


def read_log(path: Path, whole: bool = False) -> str:
    text = path.read_bytes().decode("utf-8", errors="replace") if path.exists() else ""
    return text if whole else re.sub(r"\r(?!\n)", "\n", text[-_TAIL:])


def _start(words: list[str], workdir: Path, env: dict[str, str], out: IO[bytes], err: IO[bytes], rank: int) -> Process:
    return subprocess.Popen(
        [sys.executable, *words], cwd=workdir, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err
    )


def torchrun(ranks: int) -> list[dict[str, str]]:
    """Each rank's environment, as it would be there."""
    shared = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)] or [{}]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
