"""A run in which the machine that ranks leave their notes with is gone: there is nobody who could say so."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from distify_runtime.arriving import has_all_here
from distify_runtime.watch import frames
from distify_runtime.watch.mode import Mode
from distify_runtime.watch.pulse import Pulse
from distify_runtime.watch.verdict import broken_elsewhere, say

_EACH = 1.0


class Unanswered(threading.Thread):
    """Beside the thread that asks. patience: seconds without an answer in which the training stands still; 0: for ever.

    A cable that is pulled out ends no connection: who waits for an answer waits for a quarter of an hour.
    """

    def __init__(self, mode: Mode, patience: float) -> None:
        super().__init__(name="distify-unanswered", daemon=True)
        self._mode, self._patience = mode, patience
        self._over = threading.Event()
        self._since: float | None = None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Under `with`, an answer is waited for."""
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._since = None

    def end(self) -> None:
        self._over.set()

    def run(self) -> None:
        pulse: Pulse | None = None  # felt only as long as there is a reason
        while self._patience and not self._over.wait(_EACH):
            since = self._since
            if since is None or time.monotonic() - since < _EACH:
                pulse = None
                continue
            pulse = pulse or Pulse()
            if pulse.still() >= self._patience:
                stack = pulse.stack()
                say(f"this rank waits:\n{frames.told(stack)}".rstrip())
                broken_elsewhere(
                    "unanswered", _said(time.monotonic() - since, frames.last_of_script(stack)), self._mode
                )
                return


def _said(seconds: float, line: str) -> str:
    waits = f"has not answered for {seconds:.0f} s, and this rank waits" + f" at {line}" * bool(line)
    if has_all_here(os.environ):
        return f"rank 0 {waits}: that process is stopped, or gone"
    return f"rank 0's machine {waits}: that machine, or the network between them, is down"
