"""Runs functions and scripts on several ranks of this machine: of torch.distributed, or of Horovod."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, Any

import distify_runtime as rt
import torch
from distify_runtime.trace.processes import Process
from distify_runtime.trace.rendezvous import rendezvous
from torch._C._distributed_c10d import TCPStore

from tests import gpus
from tests.equivalence import horovod_ranks
from tests.equivalence.forks import Fork

RUNTIME = Path(rt.__file__).resolve().parent.parent

# One server imports torch once; each rank is a fork of it, which starts in milliseconds instead of seconds.
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    [
        *("pytest", "distify_runtime", *(["horovod.torch"] if horovod_ranks.IS_INSTALLED else [])),
        "tests.equivalence.frozen",
    ]
)

gpus.compute_there()
#: Whether `on_ranks` runs them over Horovod; `conftest.py` sets it for each test that is to hold over both.
over_horovod = False


class RankFailed(AssertionError):
    """A rank raised an exception or did not answer in time."""


def on_ranks(
    function: Callable[..., Any], *arguments: Any, ranks: int = 2, timeout: float = 180, watch: str = "on"
) -> list[Any]:
    """What `function(*arguments)` returns on each rank of a process group. Warnings are errors there.

    watch: off where ranks are to come apart.
    """
    with rendezvous(ranks) if over_horovod else _world(ranks) as environments:
        pipes, processes = [], []
        for environment in environments:
            receiver, sender = _forks.Pipe(duplex=False)
            watched = {**environment, "DISTIFY_WATCH": watch}
            process = _forks.Process(target=_serve, args=(function, arguments, watched, sender))
            process.start()
            sender.close()
            pipes.append(receiver)
            processes.append(process)
        try:
            return _collect(pipes, time.monotonic() + timeout)
        finally:
            for process in processes:  # which have answered, or never will
                process.kill()
                process.join()


@dataclass(frozen=True)
class Ended:
    """A rank of a script that ran to its end by itself."""

    code: int
    out: str
    err: str


def run_script(
    source: str, *arguments: str, ranks: int = 2, timeout: float = 180, fresh: bool = False, hash_seed: str = "0"
) -> list[Ended]:
    """Run a script's text as a launcher would; `ranks=0`: under plain `python`. Warnings are errors there.

    Nobody ends the other ranks when one fails: they have to end by themselves within the time.
    fresh: each rank is an interpreter of its own, not a fork of one that has torch. hash_seed: PYTHONHASHSEED.
    """
    with _world(ranks) as environments, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "script.py"
        script.write_text(source, encoding="utf-8")
        processes: list[Process] = []
        for rank, environment in enumerate(environments or [{}]):
            env = {**os.environ, "PYTHONPATH": str(RUNTIME), "PYTHONWARNINGS": "error", **environment}
            env["PYTHONHASHSEED"] = hash_seed
            with (folder / f"{rank}.out").open("wb") as out, (folder / f"{rank}.err").open("wb") as err:
                start = _interpreter if fresh else Fork
                processes.append(start([str(script), *arguments], Path.cwd(), env, out, err, rank))
        deadline = time.monotonic() + timeout
        try:
            while any(process.poll() is None for process in processes):
                assert time.monotonic() < deadline, "some rank did not end in time"
                time.sleep(0.02)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return [
            Ended(process.wait(), *((folder / f"{rank}.{one}").read_text() for one in ("out", "err")))
            for rank, process in enumerate(processes)
        ]


def _interpreter(
    words: list[str], cwd: Path, env: dict[str, str], out: IO[bytes], err: IO[bytes], rank: int
) -> Process:
    return subprocess.Popen([sys.executable, *words], cwd=cwd, env=env, stdout=out, stderr=err)


@contextmanager
def _world(ranks: int) -> Iterator[list[dict[str, str]]]:
    """Each rank's environment. The store listens on a port that this process holds: no other can take it."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    store = TCPStore(
        "127.0.0.1",
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    shared = {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",  # which init_process_group asks for
    }
    yield gpus.spread([{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)])
    del store


def _serve(
    function: Callable[..., Any], arguments: tuple[Any, ...], environment: dict[str, str], answer: Connection
) -> None:
    os.environ.update(environment)
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "Attempting to run cuBLAS")  # torch's, of the thread that goes back
            if "HOROVOD_RANK" in os.environ:
                import horovod.torch as hvd

                hvd.init()
            rt.init_process_group()
            result = pickle.dumps(function(*arguments))
            rt.destroy_process_group()
        answer.send((True, result))
    except BaseException:  # SystemExit too: the test that runs this function has to hear of it
        answer.send((False, traceback.format_exc()))


def _collect(pipes: list[Connection], deadline: float) -> list[Any]:
    """What each rank returned. Raises RankFailed for the first that fails: the others may wait for it until the end."""
    results: dict[int, Any] = {}
    while waiting := [rank for rank in range(len(pipes)) if rank not in results]:
        ready = wait([pipes[rank] for rank in waiting], max(0, deadline - time.monotonic()))
        if not ready:
            raise RankFailed(f"rank {waiting[0]} did not answer in time")
        for rank in (rank for rank in waiting if pipes[rank] in ready):
            succeeded, answer = pipes[rank].recv()
            if not succeeded:
                raise RankFailed(f"rank {rank}:\n{answer}")
            results[rank] = pickle.loads(answer)
    return [results[rank] for rank in range(len(pipes))]
