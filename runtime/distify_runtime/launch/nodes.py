"""Several machines: what each of their torchruns is told."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

from distify_runtime.addresses import local_address

DEFAULT_PORT = 29500
_NODES = re.compile(r"([1-9]\d*)(?::([1-9]\d*))?")


class WrongNodes(ValueError):
    """What is wrong with what was said about the machines, in a line."""


@dataclass(frozen=True)
class Nodes:
    """The machines that a launch is one of.

    count: "2", or "1:4" for as many of up to four as there are. rank: this one's number, from 0; None where torchrun
    deals it out. endpoint: "host:port" of node 0, the same on all.
    """

    count: str
    rank: int | None
    endpoint: str

    @property
    def most(self) -> int:
        """How many machines there are, at most."""
        return int(self.count.rpartition(":")[2])

    @property
    def may_change(self) -> bool:
        """Whether machines may come and go."""
        return ":" in self.count

    def options(self) -> list[str]:
        """Those of torchrun."""
        address = local_address(self.host, self.port)
        words = ["--nnodes", self.count]
        if not self.may_change and self.rank is not None:
            return [*words, "--node-rank", str(self.rank), "--rdzv-backend", "static", "--rdzv-endpoint", self.where]
        words += ["--rdzv-backend", "c10d", "--rdzv-endpoint", self.where, "--rdzv-id", "distify"]
        # torchrun guesses from names whether it is the host, and which of its addresses the others know.
        words += ["--rdzv-conf", f"is_host={int(self.rank == 0)}"] if self.rank is not None else []
        return [*words, *(["--local-addr", address] if address else [])]

    @property
    def host(self) -> str:
        return self.endpoint.rpartition(":")[0] or self.endpoint

    @property
    def port(self) -> int:
        return int(self.endpoint.rpartition(":")[2]) if ":" in self.endpoint else DEFAULT_PORT

    @property
    def where(self) -> str:
        return f"{self.host}:{self.port}"


def nodes_of(count: str | None, rank: int | None, endpoint: str | None) -> Nodes | None:
    """What the command line says of machines; None where it is one. Raises WrongNodes."""
    if count is None and rank is None and endpoint is None:
        return None
    found = _NODES.fullmatch(count or "")
    if found is None or (found[2] and int(found[2]) < int(found[1])):
        given = count or "is missing"
        raise WrongNodes(f"--nnodes {given}: how many machines, as in 2, or from how many to how many, as in 1:4")
    if count == "1" and rank in (None, 0) and endpoint is None:
        return None
    if endpoint is None:
        raise WrongNodes(f"--nnodes {count}: where do they meet? --rdzv-endpoint HOST:PORT, a port of node 0's")
    host, _, port = endpoint.rpartition(":") if ":" in endpoint else (endpoint, "", str(DEFAULT_PORT))
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise WrongNodes(f"--rdzv-endpoint {endpoint}: HOST:PORT is wanted")
    if rank is None and found[2] is None:
        raise WrongNodes(f"--nnodes {count}: which of them is this one? --node-rank R, from 0")
    if rank is not None and rank >= int(found[2] or found[1]):
        raise WrongNodes(f"--node-rank {rank}: of {count} machines the last is {int(found[2] or found[1]) - 1}")
    try:
        socket.getaddrinfo(host, int(port))
    except OSError as error:
        raise WrongNodes(f"--rdzv-endpoint {endpoint}: {host} cannot be found: {error.strerror}") from None
    return Nodes(count or "", rank, endpoint)
