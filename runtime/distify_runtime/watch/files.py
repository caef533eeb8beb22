"""One file, one writer: a path that two ranks of a machine open for writing is named, with the lines.

Python tells of each `open`. What C libraries open by themselves (HDF5, OpenCV) does not show.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer

from distify_runtime.saving import finished
from distify_runtime.watch import frames
from distify_runtime.watch.verdict import of_ranks
from distify_runtime.watch.watching import Steps, Watching

#: So many are kept; a script that writes more files is not told of the later ones.
_MOST = 10_000
_WRITES = os.O_WRONLY | os.O_RDWR
_MAKES = os.O_TRUNC | os.O_APPEND
#: Devices, and what processes lock each other out by.
_NO_FILES = ("/dev/", "/proc/", "/sys/")
_SHARED = (".lock", ".pyc", ".pid")
#: Where variables of the environment put caches.
_CACHES = ("XDG_CACHE_HOME", "MPLCONFIGDIR", "TORCH_HOME", "HF_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")

_opened: dict[str, str] = {}
_new: dict[str, str] = {}
_on = False
_takes_turns: Callable[[], bool] = bool
#: By machine and path, what rank 0 has heard: the line on each rank.
_heard: dict[tuple[str, str], dict[int, str]] = {}


def watch(takes_turns: Callable[[], bool]) -> None:
    """From here on, of this process; but not where ranks do what they do one after the other."""
    global _on, _takes_turns
    _on, _takes_turns = True, takes_turns
    _listen()


@functools.cache
def _listen() -> None:
    sys.addaudithook(_audit)


def stop() -> None:
    """An audit hook stays for ever: it listens no longer."""
    global _on
    _on = False


def look(watching: Watching, optimizer: Optimizer, steps: Steps) -> None:
    if steps.number == 0:
        exchange(watching, f"files/{steps.taken}")


def exchange(watching: Watching, topic: str) -> None:
    new = dict(_new)
    _new.clear()
    watching.exchange(topic, [socket.gethostname(), new], _judged)


def _judged(everyone: list[Any]) -> str:
    for rank, (host, new) in enumerate(everyone):
        for path, line in new.items():
            _heard.setdefault((host, path), {})[rank] = line
    for (_, path), lines in _heard.items():
        if len(lines) > 1:
            where, ranks = ", ".join(sorted(set(lines.values()) - {""})), sorted(lines)
            lines.clear()
            at = f" ({where})" if where else ""
            return f"{of_ranks(ranks)} write one file, {path}{at}: let rank 0 alone write it"
    return ""


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or not _on:
        return
    path, mode, flags = args
    if _creates(mode, flags):
        opens(path)


def opens(path: object) -> None:
    """This rank makes this file, or writes behind it; `torch.save` does so where Python does not see it."""
    if not _on or not isinstance(path, (str, bytes, os.PathLike)) or _takes_turns():
        return
    name = finished(os.path.abspath(os.fsdecode(path)))
    if name in _opened or len(_opened) >= _MOST or not _is_of_interest(name) or os.path.isdir(name):
        return  # a temporary file without a name is opened as its folder
    _opened[name] = _new[name] = frames.line_of_script(sys._getframe(1))


def _creates(mode: str | None, flags: int) -> bool:
    """Whether it makes a file anew or writes behind it; not where it must not be there, nor within it."""
    if isinstance(mode, str) and mode:
        return "w" in mode or "a" in mode
    return bool(flags & _WRITES) and bool(flags & _MAKES) and not flags & os.O_EXCL


def _is_of_interest(name: str) -> bool:
    """Libraries keep caches of their own, which they lock or write alike: in hidden folders, or where they are told."""
    caches = tuple(os.path.join(os.path.abspath(folder), "") for one in _CACHES if (folder := os.environ.get(one)))
    hidden = f"{os.sep}." in name or "__pycache__" in name
    return not hidden and not name.startswith(_NO_FILES + caches) and not name.endswith(_SHARED)
