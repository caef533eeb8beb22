"""A run in which the machine that ranks leave their notes with is gone: there is nobody who could say so."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from distify_runtime.watch.mode import Mode
from distify_runtime.watch.pulse import Pulse
from distify_runtime.watch.verdict import broken_elsewhere

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
                broken_elsewhere("unanswered", self._said(time.monotonic() - since), self._mode)
                return

    @staticmethod
    def _said(seconds: float) -> str:
        return (
            f"rank 0's machine has not answered for {seconds:.0f} s, and this rank waits: that machine, or the network "
            "between them, is down"
        )
