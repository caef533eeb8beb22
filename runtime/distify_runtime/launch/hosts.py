"""The machines that an engine starts ranks on by itself, as `--hosts` or `--hostfile` name them."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

_HERE = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class Hosts:
    """`listed`: "one:4,two:4". `file`: one with a host and its slots in each line. Neither: this machine alone."""

    listed: str = ""
    file: str = ""

    def slots(self) -> list[tuple[str, int]]:
        """The hosts, and how many ranks each has room for."""
        lines = [word for word in self.listed.split(",") if word]
        if self.file:
            text = Path(self.file).read_text(encoding="utf-8")
            lines = [line.split("#")[0].replace(" slots=", ":").strip() for line in text.splitlines()]
        pairs = [line.rpartition(":") for line in lines if line]
        return [(host, int(count)) if count.isdigit() and host else (host or count, 1) for host, _, count in pairs]

    @property
    def is_local(self) -> bool:
        """Whether all ranks are on this machine."""
        here = (*_HERE, socket.gethostname())
        return all(host in here for host, _ in self.slots())
