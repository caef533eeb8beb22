"""Whether the thread that trains gets on: by where it stands, and by the time that it computes."""

from __future__ import annotations

import faulthandler
import os
import re
import sys
import tempfile
import threading
import time
import traceback
import weakref
from typing import BinaryIO

#: Of the time that passes; a thread that waits, even one that asks again and again, takes less.
_LEAST_SHARE = 0.005
#: As `faulthandler` writes it.
_CALL = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')


class Pulse:
    """Of the main thread, felt from another one."""

    def __init__(self) -> None:
        self._thread = threading.main_thread().ident or 0
        self._dump = _file()
        weakref.finalize(self, self._dump.close)
        self._place = b""
        self._computed = self._clock()
        self._since = self._last = time.monotonic()

    def stack(self) -> list[traceback.FrameSummary]:
        """Where it is, what is called last standing last; at most the hundred last calls."""
        return calls_of(self._where().decode(errors="replace"))

    def still(self) -> float:
        """For how many seconds it has been where it is. To be asked every second or so."""
        place, computed, now = self._where(), self._clock(), time.monotonic()
        share = (computed - self._computed) / max(now - self._last, 1e-3)
        if place != self._place or share > _LEAST_SHARE:
            self._since = now
        self._place, self._computed, self._last = place, computed, now
        return now - self._since

    def _where(self) -> bytes:
        """Its stack, as text: to hold on to its frames, if only for a moment, would keep alive what they have."""
        self._dump.seek(0)
        self._dump.truncate()
        faulthandler.dump_traceback(self._dump, all_threads=True)
        self._dump.seek(0)
        stacks = self._dump.read().split(b"\n\n")
        return next((one for one in stacks if f"{self._thread:x} ".encode() in one.partition(b"\n")[0]), b"")

    def _clock(self) -> float:
        """Seconds that it has computed; where a system does not tell of one thread, all threads together."""
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        try:
            return time.clock_gettime(clock_of(self._thread)) if clock_of else time.process_time()
        except OSError:  # it has ended
            return 0.0


def calls_of(stacks: str) -> list[traceback.FrameSummary]:
    """The last of the stacks that `faulthandler` has written, the main thread's: what is called last standing last."""
    last = re.split(r"^(?:Current thread|Thread) .*$", stacks, flags=re.MULTILINE)[-1]
    calls = map(_CALL.fullmatch, last.splitlines())
    return [traceback.FrameSummary(call["file"], int(call["line"]), call["function"]) for call in calls if call][::-1]


def _file() -> BinaryIO:
    """In memory, where the system has such files: a full disk is not to look like a thread that waits."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("distify-pulse"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)
