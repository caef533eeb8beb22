"""What the launchers of several machines tell each other: which rank has failed, where, and what it said last.

The one of machine 0 listens at some port, and is asked for its number at that of --rdzv-endpoint, over UDP: over TCP it
is torch's. The others connect to it, and what one of them tells, it passes on. Where none of that gets through, each
launcher knows of its own ranks alone.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from dataclasses import dataclass, field

from distify_runtime.addresses import local_address
from distify_runtime.launch.nodes import Nodes
from distify_runtime.launch.report import RankEnd

#: Asks for the port, and stands before its number.
HELLO = b"distify: who listens? "
ASK_AGAIN_SECONDS = 1.0
#: For one that does not take what it is told.
SEND_SECONDS = 1.0
LONGEST = 2**20
_THIS_MACHINE = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class Told:
    """A failure. `tail`: the last of the rank's log. `log`: its path, on its machine."""

    end: RankEnd
    tail: str
    log: str

    def encoded(self) -> bytes:
        """How long it is ago, and not when it was: clocks of machines may differ."""
        end = self.end
        said = {"rank": end.rank, "code": end.code, "host": end.host, "ago": time.time() - end.ended}
        return json.dumps({**said, "tail": self.tail, "log": self.log}).encode() + b"\n"


def decoded(line: bytes) -> Told:
    """Raises ValueError, KeyError or TypeError for what is none."""
    said = json.loads(line)
    ended = time.time() - float(said["ago"])
    end = RankEnd(int(said["rank"]), int(said["code"]), ended, host=str(said["host"]))
    return Told(end, str(said["tail"]), str(said["log"]))


@dataclass
class _Peer:
    connection: socket.socket
    received: bytes = b""


@dataclass
class News:
    """`failures`: those of other machines' ranks, by rank. `nodes`: None where there are no other machines."""

    nodes: Nodes | None
    failures: dict[int, Told] = field(default_factory=dict)
    _known: list[Told] = field(default_factory=list)  # with those of this machine
    _peers: dict[int, _Peer] = field(default_factory=dict)
    _door: socket.socket | None = None
    _listener: socket.socket | None = None
    _ask_at: float = 0.0

    def __enter__(self) -> News:
        if self.nodes is not None:
            with contextlib.suppress(OSError):
                self._open(self.nodes)
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._door, self._listener, *(peer.connection for peer in self._peers.values())):
            if each is not None:
                each.close()

    def _open(self, nodes: Nodes) -> None:
        family, kind, _, _, address = socket.getaddrinfo(nodes.host, nodes.port, type=socket.SOCK_DGRAM)[0]
        self._door = socket.socket(family, kind)
        self._door.setblocking(False)
        # As torchrun decides it where nobody says which machine this is.
        if nodes.rank == 0 or (nodes.rank is None and local_address(nodes.host, nodes.port) == address[0]):
            # Others may know this machine by another address than it does itself.
            where = address[0] if nodes.host in _THIS_MACHINE else ""
            with contextlib.suppress(OSError):  # another launcher on this machine has come first
                self._door.bind((where, nodes.port))
                self._listener = socket.socket(family, socket.SOCK_STREAM)
                self._listener.bind((where, 0))
                self._listener.listen()
                return
        self._door.connect(address)

    def sources(self) -> list[int]:
        """What to wait for."""
        return [*(each.fileno() for each in (self._door, self._listener) if each is not None), *self._peers]

    def hear(self, source: int) -> None:
        """Takes what has come there."""
        if source in self._peers:
            self._hear_peer(self._peers[source])
        elif self._listener is not None and source == self._listener.fileno():
            self._add(self._listener.accept()[0])
        elif self._door is not None and source == self._door.fileno():
            with contextlib.suppress(OSError):  # nobody is there yet
                self._answer(self._door) if self._listener else self._connect(self._door)

    def ask(self) -> None:
        """Asks machine 0, now and then, until it has answered."""
        if self._door is not None and self._listener is None and time.monotonic() > self._ask_at:
            self._ask_at = time.monotonic() + ASK_AGAIN_SECONDS
            with contextlib.suppress(OSError):
                self._door.send(HELLO)

    def tell(self, told: Told) -> None:
        """Tells all other machines."""
        self._known.append(told)
        for peer in list(self._peers.values()):
            self._send(peer, told)

    def forget(self) -> None:
        """What was told of an earlier start."""
        self.failures.clear()
        self._known.clear()

    def _answer(self, door: socket.socket) -> None:
        assert self._listener is not None
        said, who = door.recvfrom(len(HELLO) + 1)
        if said == HELLO:
            door.sendto(HELLO + str(self._listener.getsockname()[1]).encode(), who)

    def _connect(self, door: socket.socket) -> None:
        said = door.recv(len(HELLO) + 5)
        port = said[len(HELLO) :]
        if said.startswith(HELLO) and port.isdigit():
            self._add(socket.create_connection((door.getpeername()[0], int(port)), timeout=SEND_SECONDS))
            door.close()
            self._door = None

    def _add(self, connection: socket.socket) -> None:
        connection.settimeout(SEND_SECONDS)
        peer = self._peers[connection.fileno()] = _Peer(connection)
        for told in self._known:
            self._send(peer, told)

    def _hear_peer(self, peer: _Peer) -> None:
        try:
            data = peer.connection.recv(2**16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, peer.received = (peer.received + data).split(b"\n")
        try:
            for told in map(decoded, lines):
                self.failures[told.end.rank] = told
                self._known.append(told)
                for other in list(self._peers.values()):
                    if other is not peer:
                        self._send(other, told)
        except (ValueError, KeyError, TypeError):  # it is no launcher
            data = b""
        if not data or len(peer.received) > LONGEST:
            self._drop(peer)

    def _send(self, peer: _Peer, told: Told) -> None:
        try:
            peer.connection.sendall(told.encoded())
        except OSError:
            self._drop(peer)

    def _drop(self, peer: _Peer) -> None:
        if self._peers.pop(peer.connection.fileno(), None) is not None:
            peer.connection.close()
