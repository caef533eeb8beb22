"""A line on stderr that says how far a conversion is: at a terminal, where it takes more than two seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TextIO

from distify.resolver import LocalModules
from distify.terminal import is_terminal

#: Seconds without a word; and between two looks at how far it is.
PATIENCE, PAUSE = 2.0, 0.3
_CLEAR = "\r\x1b[K"


class Progress:
    """How often a program has been followed; it does so anew for whatever is tried out."""

    def __init__(self, modules: LocalModules) -> None:
        self.modules = modules
        self.runs = self.about = 0

    def __call__(self, about: int) -> None:
        self.runs, self.about = self.runs + 1, max(about, self.runs + 1)

    def __str__(self) -> str:
        files = len(self.modules.found) + 1
        run = f", run {self.runs} of about {self.about}" if self.runs else ""
        return f"reading {files} file{'s' * (files != 1)}{run}"


@contextmanager
def progress(modules: LocalModules) -> Iterator[Progress]:
    """Shows how far it is while the block runs, and leaves nothing of it on the screen."""
    seen, ended = Progress(modules), Event()
    if not is_terminal(sys.stderr):
        yield seen
        return
    showing = Thread(target=_show, args=(seen, ended, sys.stderr), daemon=True)
    showing.start()
    try:
        yield seen
    finally:
        ended.set()
        showing.join()


def _show(seen: Progress, ended: Event, stream: TextIO) -> None:
    if ended.wait(PATIENCE):
        return
    shown = ""
    while not ended.is_set():
        if str(seen) != shown:
            shown = str(seen)
            _write(stream, f"{_CLEAR}{shown} ...")
        ended.wait(PAUSE)
    _write(stream, _CLEAR)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):  # the terminal is gone; the conversion need not end for that
        pass
