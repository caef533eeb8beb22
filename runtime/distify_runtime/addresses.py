"""Addresses of machines, and the network interfaces that have them."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import sys

_SIOCGIFADDR = 0x8915
LOOPBACK_INTERFACE = "lo0" if sys.platform == "darwin" else "lo"


def local_address(host: str, port: int) -> str:
    """This machine's address on the way to that host; "" where there is no way. Sends nothing."""
    with contextlib.suppress(OSError):
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    return ""


def interface_of(address: str) -> str:
    """The network interface with this address; "" where none has (Linux, IPv4)."""
    import fcntl  # only here: there is none on Windows

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                asked = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(asked[20:24]) == address:
                    return name
    return ""


def first_host(nodes: str) -> str:
    """`gpu07` of Slurm's `gpu[07-09,12],login1`."""
    first = re.match(r"([^\[,]*)(?:\[(\d+)[^\]]*\]([^,\[]*))?", nodes)
    assert first is not None  # each part may be empty
    return "".join(part or "" for part in first.groups())
