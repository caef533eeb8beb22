"""What is seen before the ranks are started: what would stop them, and what might."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

from distify_runtime.launch.config import LaunchConfig, LaunchError
from distify_runtime.launch.hosts import Hosts
from distify_runtime.launch.nodes import Nodes
from distify_runtime.launch.target import find_module

SHARED_MEMORY = Path("/dev/shm")
#: Less than this is what containers have if nobody asks for more.
LEAST_SHARED_MEMORY = 2**30
#: Files that a rank has open besides its connections: alone, and with workers that hand it batches.
FILES, FILES_WITH_WORKERS = 256, 1024
#: How scripts speak of what an earlier run has left. A word too many costs nothing but a line that is not said.
_READS = re.compile(rb"\bload_|\.load\b|\bload\(|(?i:resum|restor|checkpoint|ckpt|pretrained)")
_IMPORTS = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([\w.][^\n#;]*)", re.MULTILINE)
#: What scripts call the workers of a loader.
_WORKERS = (b"num_workers", b"num-workers")


def check_start(config: LaunchConfig) -> None:
    """Raises LaunchError for what the ranks could only fail of."""
    if config.nodes is not None and config.nodes.rank == 0:
        check_port(config.nodes)


def check_port(nodes: Nodes) -> None:
    """Whether machine 0 can listen where all meet."""
    try:
        with socket.socket() as probe:
            probe.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
            )  # as torch does: one that has just ended is free
            probe.bind(("", nodes.port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise LaunchError(
                f"--rdzv-endpoint {nodes.where}: the port is taken, by a run that goes on or by another program: "
                "`ss -ltnp` shows by which; or give all machines another"
            ) from None
        if error.errno == errno.EACCES:
            raise LaunchError(f"--rdzv-endpoint {nodes.where}: this user may not listen at that port") from None


def doubts(config: LaunchConfig) -> Iterator[str]:
    """What may go wrong, a line for each."""
    yield from unknown_hosts(config.hosts)
    texts = texts_of(config)
    if config.max_restarts and texts and not any(_READS.search(text) for text in texts):
        yield (
            f"--max-restarts {config.max_restarts}: nothing in the script reads a checkpoint (torch.load, "
            "load_state_dict): after a failure it begins from its beginning"
        )
    has_workers = any(word in text for text in texts[:1] for word in _WORKERS)
    if has_workers and (free := free_shared_memory()) is not None and free < LEAST_SHARED_MEMORY:
        yield (
            f"{SHARED_MEMORY} has {free / 2**20:.0f} MiB free, which workers of loaders pass batches through: more of "
            "it (docker run --shm-size=8g, or --ipc=host), or num_workers 0, if they end by a bus error"
        )
    soft, hard = file_limits()
    if soft < (FILES_WITH_WORKERS if has_workers else FILES) + 4 * config.world_size:
        more = "" if hard <= soft else f": `ulimit -n {min(hard, 65535)}` before the start, if ranks end by it"
        yield f"a process may open {soft} files here, which is few for {config.world_size} ranks{more}"


def unknown_hosts(hosts: Hosts) -> Iterator[str]:
    """ssh may know more names than these."""
    for host, _ in hosts.slots():
        try:
            socket.getaddrinfo(host, None)
        except OSError as error:
            yield f"--hosts: this machine does not know where {host} is ({error.strerror}), unless ssh does"


def texts_of(config: LaunchConfig) -> list[bytes]:
    """The script, and what it imports of what lies beside it; [] where it cannot be read."""
    try:
        path = find_module(config.target) if config.module else Path(config.target)
    except LaunchError:
        return []
    found: dict[Path, bytes] = {}
    wanted = [path] if path is not None else []
    while wanted:
        path = wanted.pop()
        if path in found:
            continue
        with contextlib.suppress(OSError):
            found[path] = path.read_bytes()
            wanted += _beside(path, found[path])
    return list(found.values())


def _beside(path: Path, text: bytes) -> Iterator[Path]:
    """Files here that the modules may be which a file imports."""
    for line in _IMPORTS.findall(text):
        first, *others = (name.strip(".") for name in re.findall(r"[\w.]+", line.decode(errors="replace")))
        for name in (first, *others, *(f"{first}.{other}".strip(".") for other in others)):
            for folder in (path.parent, Path.cwd()):
                module = folder.joinpath(*name.split("."))
                yield from (one for one in (Path(f"{module}.py"), module / "__init__.py") if one.is_file())


def free_shared_memory() -> int | None:
    """Bytes; None where the system has no such folder."""
    try:
        found = os.statvfs(SHARED_MEMORY)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def file_limits() -> tuple[int, int]:
    """How many files a process may open: now, and if it asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 2**31
    return (most if soft < 0 else soft), (most if hard < 0 else hard)
