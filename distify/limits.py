"""What runs into a limit of this machine: memory that processes share, open files, its name and a port for others."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator

from distify_runtime.launch.before import FILES_WITH_WORKERS, LEAST_SHARED_MEMORY, check_port, file_limits
from distify_runtime.launch.config import LaunchError
from distify_runtime.launch.nodes import DEFAULT_PORT, Nodes

from distify.machine import Item


def limits() -> Iterator[Item]:
    yield from _shared_memory()
    yield _open_files()
    yield _name()
    yield _port()


def _shared_memory() -> Iterator[Item]:
    if not os.path.isdir("/dev/shm"):
        return
    free = shutil.disk_usage("/dev/shm").free
    if free < LEAST_SHARED_MEMORY:
        advice = "workers of loaders, and NCCL, need more: docker run --shm-size=8g"
        yield Item("/dev/shm", "absent", f"{free / 2**20:.0f} MiB free", advice)
    else:
        yield Item("/dev/shm", "ok", f"{free / 2**30:.0f} GiB free")


def _open_files() -> Item:
    soft, hard = file_limits()
    if soft < FILES_WITH_WORKERS:
        return Item(
            "open files", "absent", f"{soft} for a process", f"few for many workers: ulimit -n {min(hard, 65535)}"
        )
    return Item("open files", "ok", f"{soft} for a process")


def _name() -> Item:
    """Other machines have to find this one, where there are some."""
    name = socket.gethostname()
    try:
        found = sorted({str(one[4][0]) for one in socket.getaddrinfo(name, None)})
    except OSError:
        advice = "only for several machines: a line in /etc/hosts, or --rdzv-endpoint with an address"
        return Item("host name", "absent", f"{name} has no address", advice)
    if all(address.startswith("127.") or address == "::1" for address in found):
        advice = "only for several machines: give them an address that the others reach"
        return Item("host name", "absent", f"{name} is {', '.join(found)}, this machine alone", advice)
    return Item("host name", "ok", f"{name} is {', '.join(found)}")


def _port() -> Item:
    try:
        check_port(Nodes("2", 0, f"localhost:{DEFAULT_PORT}"))
    except LaunchError:
        advice = f"only for several machines: another port in --rdzv-endpoint; `ss -ltnp` shows who has {DEFAULT_PORT}"
        return Item("port", "absent", f"{DEFAULT_PORT}, the usual one of --rdzv-endpoint, is taken", advice)
    return Item("port", "ok", f"{DEFAULT_PORT}, the usual one of --rdzv-endpoint, is free")
