"""Stands here for a rank elsewhere: writes what it writes, passes signals on to it, and ends as it ends.

To the launch it is the rank's script, started by a supervisor as any other. `sys.argv[1]`: the descriptor of the
connection to the rank.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys

from distify_runtime.launch.remote import END, ERR, GO, OUT, receive
from distify_runtime.launch.supervisor import leave


def main() -> int:
    """How the rank has ended: its exit code, or the signal as a negative number."""
    channel = socket.socket(fileno=int(sys.argv[1]))

    def pass_on(number: int) -> None:
        with contextlib.suppress(OSError):
            channel.send(bytes([number]))

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda number, _: pass_on(number))
    channel.send(GO)
    while (frame := receive(channel)) is not None:
        kind, data = frame
        if kind == END:
            return int(json.loads(data)["code"])
        with contextlib.suppress(OSError):
            _write(1 if kind == OUT else 2, data) if kind in (OUT, ERR) else None
    return -signal.SIGKILL  # its machine, or what ran it there, has gone without a word


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    leave(main())
