"""One rank on a machine of a cluster: starts the script, and sends its output and its end to where `distify run` is.

A process of its own, started by what the cluster's engine has started (`elsewhere.run_rank`), with nothing but the
standard library. What is sent: frames of a kind, a length and so many bytes. What comes back: numbers of signals.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any

TASK_VARIABLE = "DISTIFY_TASK"
#: In front of each frame: its kind and its length.
HEADER = struct.Struct(">cI")
HELLO, OUT, ERR, END = b"h", b"o", b"e", b"x"
#: The first that comes back: the script may start, what it says will be heard.
GO = b"\0"
READ_BYTES = 64 * 1024
GRACE_SECONDS = 10.0
#: What a script has started may hold its output open after its end.
LAST_OUTPUT_SECONDS = 1.0
FOR_EVER = float("inf")


def main() -> int:
    task = json.loads(os.environ.pop(TASK_VARIABLE))
    channel = socket.create_connection(tuple(task["address"]), timeout=60)
    channel.settimeout(None)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    hello = {"token": task["token"], "rank": int(os.environ["RANK"]), "host": socket.gethostname()}
    send(channel, HELLO, json.dumps(hello).encode())
    first = channel.recv(1)
    if first != GO:  # nobody stands there for this rank any more, or a signal came before it was started
        send(channel, END, json.dumps({"code": -int.from_bytes(first, "big")}).encode())
        return 0
    try:
        script = start(task)
    except OSError as error:
        where = f"distify: {socket.gethostname()}: {error.filename}: {error.strerror}"
        send(channel, ERR, f"{where}; the script's folder and its Python have to be on all machines\n".encode())
        code = 1
    else:
        code = Rank(script, channel).see_through()
    send(channel, END, json.dumps({"code": code}).encode())
    return 0


def start(task: dict[str, Any]) -> subprocess.Popen[bytes]:
    env = {**task["usual"], **os.environ, **task["env"]}
    return subprocess.Popen(
        [sys.executable, *task["words"]],
        cwd=task["folder"],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


class Rank:
    """The script that runs, and who wants to hear of it."""

    def __init__(self, script: subprocess.Popen[bytes], channel: socket.socket) -> None:
        assert script.stdout is not None
        assert script.stderr is not None
        self._script = script
        self._channel = channel
        self._is_open = True
        self._kinds = {script.stdout.fileno(): OUT, script.stderr.fileno(): ERR}
        self._parent = os.getppid()
        self._kill_at = FOR_EVER
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: self._pass_on(number))

    def see_through(self) -> int:
        """Until the script has ended: its exit code (negative: a signal)."""
        last = FOR_EVER  # when it is no longer waited for output
        while (running := self._script.poll() is None) or (self._kinds and time.monotonic() < last):
            if not running and last == FOR_EVER:
                last = time.monotonic() + LAST_OUTPUT_SECONDS
            self._look()
            if os.getppid() != self._parent:  # the engine has ended what started this
                self._end()
            if time.monotonic() > self._kill_at:
                self._pass_on(signal.SIGKILL)
        return self._script.returncode

    def _look(self) -> None:
        sources = [*self._kinds, *([self._channel.fileno()] if self._is_open else [])]
        ready, _, _ = select.select(sources, [], [], 0.2)
        for source in ready:
            if source not in self._kinds:
                self._hear()
            elif not (data := os.read(source, READ_BYTES)):
                del self._kinds[source]
            elif self._is_open:
                self._is_open = send(self._channel, self._kinds[source], data)

    def _hear(self) -> None:
        try:
            numbers = self._channel.recv(READ_BYTES)
        except OSError:
            numbers = b""
        for number in numbers:
            self._pass_on(number)
        if not numbers:  # nobody wants to know any more
            self._is_open = False
            self._end()

    def _end(self) -> None:
        if self._kill_at == FOR_EVER:
            self._kill_at = time.monotonic() + GRACE_SECONDS
            self._pass_on(signal.SIGTERM)

    def _pass_on(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._script.pid, number)


def send(channel: socket.socket, kind: bytes, data: bytes) -> bool:
    """Whether somebody was there to take it."""
    try:
        channel.sendall(HEADER.pack(kind, len(data)) + data)
    except OSError:
        return False
    return True


def receive(channel: socket.socket) -> tuple[bytes, bytes] | None:
    """The next frame; None where there is no other."""
    head = _exactly(channel, HEADER.size)
    if head is None:
        return None
    kind, length = HEADER.unpack(head)
    data = _exactly(channel, length)
    return None if data is None else (kind, data)


def _exactly(channel: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        try:
            more = channel.recv(count - len(data))
        except OSError:
            return None
        if not more:
            return None
        data += more
    return data


if __name__ == "__main__":
    sys.exit(main())
