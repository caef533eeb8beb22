"""Whether the thread that trains gets on: by where it stands, and by the time that it computes."""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType

#: Of the time that passes; a thread that waits, even one that asks again and again, takes less.
_LEAST_SHARE = 0.005


class Pulse:
    """Of the main thread, felt from another one."""

    def __init__(self) -> None:
        self._thread = threading.main_thread().ident or 0
        self._place: tuple[tuple[int, int], ...] = ()
        self._computed = self._clock()
        self._since = self._last = time.monotonic()

    def frame(self) -> FrameType | None:
        return sys._current_frames().get(self._thread)

    def still(self) -> float:
        """For how many seconds it has been where it is. To be asked every second or so."""
        place, computed, now = self._where(), self._clock(), time.monotonic()
        share = (computed - self._computed) / max(now - self._last, 1e-3)
        if place != self._place or share > _LEAST_SHARE:
            self._since = now
        self._place, self._computed, self._last = place, computed, now
        return now - self._since

    def _where(self) -> tuple[tuple[int, int], ...]:
        frame, found = self.frame(), []
        while frame is not None:
            found.append((id(frame.f_code), frame.f_lasti))
            frame = frame.f_back
        return tuple(found)

    def _clock(self) -> float:
        """Seconds that it has computed; where a system does not tell of one thread, all threads together."""
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        try:
            return time.clock_gettime(clock_of(self._thread)) if clock_of else time.process_time()
        except OSError:  # it has ended
            return 0.0
