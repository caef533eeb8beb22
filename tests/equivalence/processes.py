"""Starts a command once per rank, as a launcher would, and waits for all of them or for the first failure."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from tests.equivalence.forks import Fork
from tests.equivalence.horovod_ranks import rendezvous

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
TIME_LIMIT = 120.0  # seconds; a run that hangs is stopped then
GRACE = 5.0  # seconds that the other ranks have left once one has failed


class RunError(AssertionError):
    """A process failed or hung; the message has its last lines of stderr."""


def run_ranks(
    command: Sequence[str], world_size: int, workdir: Path, logs: Path, forked: bool = False, horovod: bool = False
) -> list[str]:
    """Runs `python COMMAND` once per rank in `workdir` and returns each one's stdout.

    `{rank}` in the command becomes the rank. A world size of 0 means plain `python`: one process without a
    launcher's variables. stdout and stderr are kept in `logs`. Raises RunError unless all end with 0.
    forked: each rank is a fork of an interpreter that has torch already; the command begins with a script.
    horovod: the launcher is Horovod's, else torch's.
    """
    workdir.mkdir(parents=True, exist_ok=True)
    logs.mkdir(parents=True, exist_ok=True)
    with rendezvous(world_size) if horovod else nullcontext(_torchrun(world_size)) as worlds:
        return _run(command, worlds, workdir, logs, forked)


def _run(
    command: Sequence[str], worlds: Sequence[dict[str, str]], workdir: Path, logs: Path, forked: bool
) -> list[str]:
    processes: list[subprocess.Popen[bytes] | Fork] = []
    for rank, world in enumerate(worlds or [{}]):
        words = [word.replace("{rank}", str(rank)) for word in command]
        env = _environment(world)
        with (logs / f"{rank}.out").open("wb") as out, (logs / f"{rank}.err").open("wb") as err:
            if forked:
                processes.append(Fork(words, workdir, env, out, err, rank))
            else:
                words = [sys.executable, *words]
                processes.append(subprocess.Popen(words, cwd=workdir, env=env, stdout=out, stderr=err))
    codes = _wait(processes)
    if any(code != 0 for code in codes):
        raise RunError(_failure(codes, logs))
    return [_read(logs / f"{rank}.out") for rank in range(len(processes))]


def _environment(world: dict[str, str]) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in LAUNCHER_VARIABLES}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "runtime"), *filter(None, [env.get("PYTHONPATH")])])
    env["OMP_NUM_THREADS"] = "1"
    env["CUDA_VISIBLE_DEVICES"] = ""
    if sys.platform == "linux":
        env["GLOO_SOCKET_IFNAME"] = "lo"  # Gloo would else listen on the address that the host's name has
    return {**env, **world}


def _torchrun(ranks: int) -> list[dict[str, str]]:
    """Each rank's environment as torchrun would set it."""
    shared = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(processes: Sequence[subprocess.Popen[bytes] | Fork]) -> list[int | None]:
    """Exit codes; None for a process still running at the limit, or GRACE seconds after another's failure."""
    deadline = time.monotonic() + TIME_LIMIT
    failed = False
    try:
        while True:
            codes = [process.poll() for process in processes]
            if None not in codes or time.monotonic() > deadline:
                return codes
            if any(codes) and not failed:
                failed, deadline = True, min(deadline, time.monotonic() + GRACE)
            time.sleep(0.02)
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                process.wait()


def _failure(codes: Sequence[int | None], logs: Path) -> str:
    parts = [
        f"rank {rank} {'was stopped' if code is None else f'ended with {code}'}:\n"
        + _read(logs / f"{rank}.err")[-3000:]
        for rank, code in enumerate(codes)
        if code != 0
    ]
    return "\n".join(parts)


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")
