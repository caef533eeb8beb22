"""Whether the thread that trains gets on: by where it stands, and by the time that it computes."""

from __future__ import annotations

import gc
import re
import sys
import threading
import time
from traceback import FrameSummary
from types import CodeType

#: Of the time that passes; a thread that waits, even one that asks again and again, takes less.
_LEAST_SHARE = 0.005
_MOST_CALLS = 100
_Call = tuple[CodeType, int | None]
#: As `faulthandler` writes it.
_CALL = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')


class Pulse:
    """Of the main thread, felt from another one."""

    def __init__(self) -> None:
        self._thread = threading.main_thread().ident or 0
        self._place: list[_Call] = []
        self._computed = self._clock()
        self._since = self._last = time.monotonic()

    def stack(self) -> list[FrameSummary]:
        """Where it is, what is called last standing last; at most the hundred last calls."""
        return [FrameSummary(code.co_filename, line or 0, code.co_name) for code, line in reversed(self._where())]

    def still(self) -> float:
        """For how many seconds it has been where it is. To be asked every second or so."""
        place, computed, now = self._where(), self._clock(), time.monotonic()
        share = (computed - self._computed) / max(now - self._last, 1e-3)
        if place != self._place or share > _LEAST_SHARE:
            self._since = now
        self._place, self._computed, self._last = place, computed, now
        return now - self._since

    def _where(self) -> list[_Call]:
        """The calls that it is in, the last one first: of their frames nothing is held when another thread goes on, or
        what they have would live longer, and end in this thread.

        `faulthandler` would hold none, but goes through threads that torch makes and ends meanwhile: it may crash.
        """
        found: list[_Call] = []
        time.sleep(0)  # what comes is done before the interpreter asks for a turn of another thread
        collects = gc.isenabled()
        gc.disable()
        try:
            frame = sys._current_frames().get(self._thread)
            while frame is not None and len(found) < _MOST_CALLS:
                found.append((frame.f_code, frame.f_lineno))
                frame = frame.f_back
            del frame
        finally:
            if collects:
                gc.enable()
        return found

    def _clock(self) -> float:
        """Seconds that it has computed; where a system does not tell of one thread, all threads together."""
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        try:
            return time.clock_gettime(clock_of(self._thread)) if clock_of else time.process_time()
        except OSError:  # it has ended
            return 0.0


def calls_of(stacks: str) -> list[FrameSummary]:
    """The last of the stacks that `faulthandler` has written, the main thread's: what is called last standing last."""
    last = re.split(r"^(?:Current thread|Thread) .*$", stacks, flags=re.MULTILINE)[-1]
    calls = map(_CALL.fullmatch, last.splitlines())
    return [FrameSummary(call["file"], int(call["line"]), call["function"]) for call in calls if call][::-1]
