"""The launcher's end of what it and the supervisors say to each other."""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import dataclass
from typing import Any

#: Goes with the descriptors for a rank's output. LED: however the rank ends, the launcher sees to the others, and the
#: engine is to be told of an exit code of 0.
PLAIN, LED = b"\0", b"\1"


@dataclass
class Supervisor:
    """One supervisor's connection; `rank` is -1 until it has said which. `host`: of the rank, if not this one."""

    connection: socket.socket
    rank: int = -1
    host: str = ""
    received: bytes = b""

    def hear(self) -> tuple[list[dict[str, Any]], bool]:
        """What it has said since the last time, and whether it is still there."""
        try:
            data = self.connection.recv(4096)
        except ConnectionResetError:
            data = b""
        *lines, self.received = (self.received + data).split(b"\n")
        return [json.loads(line) for line in lines], bool(data)

    def ask(self, number: int) -> None:
        """Has it send its script a signal."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.sendall(bytes([number]))

    def give(self, mark: bytes, output: tuple[int, int]) -> None:
        """Hands it the stdout and stderr of its rank."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self.connection, [mark], output)
