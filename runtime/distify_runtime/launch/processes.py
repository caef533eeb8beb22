"""Signals as data, and processes that outlive the rank that started them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What a script may know, as "save, and end", and no process of ours.
SCRIPTS_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
WAKING_SIGNALS = (signal.SIGCHLD, signal.SIGWINCH)
POLL_SECONDS = 0.02
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def signals_as_bytes() -> Iterator[socket.socket]:
    """A socket from which each signal that arrives is read as one byte, its number. Main thread only.

    One that was ignored when this process started (nohup, `&` in a script) stays ignored.
    """
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    every = (*ENDING_SIGNALS, *SCRIPTS_SIGNALS, *WAKING_SIGNALS)
    handled = [number for number in every if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, frame: None) for number in handled}
    wakeup_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """While it lasts, processes whose parent ends become children of this one (Linux): none can hide."""
    _set_subreaper(True)
    try:
        yield
    finally:
        _set_subreaper(False)


def _set_subreaper(on: bool) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def end_with_parent() -> None:
    """Has this process asked to end as soon as the one that started it is gone, however that ended (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def children() -> set[int]:
    """Process ids of this process's children (Linux); empty elsewhere."""
    return {process for process, told in _processes() if int(told[1]) == os.getpid()}


def ticks_of_group(group: int) -> int | None:
    """How much the processes of a group have computed, in hundredths of a second (Linux); None elsewhere."""
    mine = (told for _, told in _processes() if int(told[2]) == group)
    found = [sum(map(int, told[11:15])) for told in mine]  # and of children that they have seen end
    return sum(found) if found else None


def stopped_children(parents: Collection[int]) -> dict[int, int]:
    """Process ids of children that a signal has stopped, each with its parent's (Linux); empty elsewhere."""
    found = ((process, int(told[1])) for process, told in _processes() if told[0] == "T")
    return {process: parent for process, parent in found if parent in parents}


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Of each, what the system tells, from its state on."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):  # ended in the meantime
            yield int(entry.parent.name), entry.read_text(errors="replace").rpartition(")")[2].split()


def send(target: int, number: int) -> bool:
    """Signals a process, or a group (negative); False where there is none any more."""
    try:
        os.kill(target, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def send_to_main_thread(process: int, number: int) -> bool:
    """As `send`; but no other thread of a stopped process takes the signal, while its main one goes on (Linux)."""
    directed = getattr(ctypes.CDLL(None), "tgkill", None) if sys.platform == "linux" else None  # glibc 2.30
    return send(process, number) if directed is None else directed(process, process, number) == 0


def end_leftovers(groups: Iterable[int], spared: set[int], seconds: Callable[[], float]) -> None:
    """Returns when no process is left of the ranks' groups, nor any child but those spared.

    The groups are asked to end (SIGTERM); what is still there when `seconds()` has come down to 0 is killed.
    """
    groups = list(groups)
    for group in groups:
        send(-group, signal.SIGTERM)
    killed_at = None
    while left := _left(groups, spared):
        if killed_at is not None and time.monotonic() - killed_at > 5:
            return  # not even SIGKILL ends a process that waits for a dead disk or driver
        if seconds() <= 0:
            killed_at = killed_at or time.monotonic()
            for target in left:
                send(target, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def _left(groups: list[int], spared: set[int]) -> list[int]:
    orphans = children() - spared
    for orphan in list(orphans):
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(orphan, os.WNOHANG)[0]:
                orphans.discard(orphan)
    return [-group for group in groups if send(-group, 0)] + sorted(orphans)
