"""Ranks that a cluster's engine starts on other machines: what it starts there, and what stands here for them.

    with Elsewhere(address, launch) as ranks:
        code = ranks.see_through(lambda: engine.run(run_rank, ranks.task))

The engine runs `run_rank` once for each rank, with RANK and what else torch reads in its environment. That starts
`remote.py`, which connects to this process. Here, a supervisor is started for each, as for a rank of this machine; its
script is `stand_in.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distify_runtime.launch import remote
from distify_runtime.launch.config import (
    SUPERVISOR,
    WORD_MARK,
    LaunchConfig,
    asked_variables,
    python_command,
    script_words,
)

#: How long the others may go on once a rank has failed. Of ranks that give up for one reason, often only one says it.
LAST_WORDS_SECONDS = 0.5
#: How long the engine may take to notice that all ranks have ended.
ENGINE_SECONDS = 20.0
HELLO_SECONDS = 10.0
#: The words of the script, what is set for it in any case and what where nothing is, and the folder that it runs in.
Launch = dict[str, Any]


def launch_elsewhere(config: LaunchConfig) -> Launch:
    """What a rank on another machine is to start there."""
    return {
        "words": script_words(config),
        "usual": {"PYTHONHASHSEED": "0"},
        "env": asked_variables(config),
        "folder": os.getcwd(),
    }


def quoted(value: object) -> str:
    """Texts, lists and dictionaries of texts as a Python program has them, without the quotes that shells know."""
    return json.dumps(value, ensure_ascii=False)


def run_rank(task: Launch) -> None:
    """On the machine of a rank, where the engine calls it: returns when the rank has ended, however it has.

    Raises RuntimeError where it could not be started, or told.
    """
    words = [*python_command(sys.executable), "-S", str(Path(remote.__file__))]
    done = subprocess.run(words, env={**os.environ, remote.TASK_VARIABLE: json.dumps(task)}, check=False)
    if done.returncode:
        host, port = task["address"]
        raise RuntimeError(f"distify: a rank on {socket.gethostname()} cannot tell {host}:{port} how it ends")


@dataclass
class Ended:
    """What has become of the engine."""

    error: BaseException | None = None


class Elsewhere:
    """The ranks of a launch whose engine starts them on other machines."""

    def __init__(self, address: str, launch: Launch, count: int) -> None:
        """address: this machine's, as the others know it."""
        self._listener = socket.create_server((address, 0), backlog=count)
        self._token = secrets.token_hex(16)
        self.task: Launch = {**launch, "address": [address, self._listener.getsockname()[1]], "token": self._token}
        self._count = count
        self._stand_ins: dict[int, subprocess.Popen[bytes]] = {}
        self._signals: list[int] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Elsewhere:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: self._signals.append(number))
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()

    def see_through(self, engine: Callable[[], object]) -> int:
        """Runs the engine until all its ranks have ended: 0, or 1 where one failed, or the engine did."""
        ended: list[Ended] = []
        threading.Thread(target=lambda: ended.append(_ended(engine)), daemon=True).start()
        end_at = give_up_at = float("inf")
        while not ended and time.monotonic() < give_up_at:
            time.sleep(0.05)
            codes = [stand_in.poll() for stand_in in list(self._stand_ins.values())]
            if any(codes) and end_at == float("inf"):
                end_at = time.monotonic() + LAST_WORDS_SECONDS
            if time.monotonic() > end_at:
                end_at = float("inf") if None not in codes else time.monotonic() + 1e9  # once
                self._tell(signal.SIGTERM)
            while self._signals:
                self._tell(self._signals.pop())
            if len(codes) == self._count and None not in codes and give_up_at == float("inf"):
                give_up_at = time.monotonic() + ENGINE_SECONDS
        return self._code(ended)

    def _code(self, ended: list[Ended]) -> int:
        error = ended[0].error if ended else None
        if error is not None:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self._tell(signal.SIGTERM)
        else:  # a rank that ended at once may not have been heard of yet
            _wait_until(lambda: len(self._stand_ins) == self._count)
        if not _wait_until(lambda: None not in [stand_in.poll() for stand_in in self._stand_ins.values()]):
            self._tell(signal.SIGKILL)
        codes = [stand_in.wait() for stand_in in self._stand_ins.values()]
        return int(error is not None or any(codes) or len(codes) < self._count)

    def _tell(self, number: int) -> None:
        """The supervisor notes it, and the stand-in passes it on."""
        for stand_in in self._stand_ins.values():
            if stand_in.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(stand_in.pid, number)

    def _accept(self) -> None:
        for connection in _connections(self._listener):
            connection.settimeout(HELLO_SECONDS)
            frame = remote.receive(connection)
            hello = json.loads(frame[1]) if frame is not None and frame[0] == remote.HELLO else {}
            if not secrets.compare_digest(str(hello.get("token", "")), self._token):
                connection.close()
                continue
            connection.settimeout(None)
            print(f"rank {hello['rank']} is on {hello['host']}", file=sys.stderr, flush=True)
            with connection:
                self._stand_ins[hello["rank"]] = _stand_in(connection.fileno(), hello["rank"], hello["host"])


def _wait_until(it_is_so: Callable[[], bool]) -> bool:
    give_up_at = time.monotonic() + remote.GRACE_SECONDS
    while not it_is_so() and time.monotonic() < give_up_at:
        time.sleep(0.02)
    return it_is_so()


def _ended(engine: Callable[[], object]) -> Ended:
    try:
        engine()
    except BaseException as error:  # whatever it is, this thread has nobody else to tell
        return Ended(error)
    return Ended()


def _connections(listener: socket.socket) -> Iterator[socket.socket]:
    while True:
        try:
            yield listener.accept()[0]
        except OSError:  # closed: the launch has ended
            return


def _stand_in(descriptor: int, rank: int, host: str) -> subprocess.Popen[bytes]:
    words = [*python_command(sys.executable)[1:], "-m", "distify_runtime.launch.stand_in", str(descriptor)]
    return subprocess.Popen(
        [*python_command(sys.executable), "-S", str(SUPERVISOR), *(WORD_MARK + word for word in words)],
        env={**os.environ, "RANK": str(rank), "DISTIFY_HOST": host, "DISTIFY_DESCRIPTORS": str(descriptor)},
        pass_fds=[descriptor],
        start_new_session=True,
    )
