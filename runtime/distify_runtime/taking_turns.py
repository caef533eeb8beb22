"""Threads of a rank that would meet other ranks' at the same time: in any order, and on each rank in another.

What ranks tell each other is found by its number alone, so that a thread would be given another's answer, and nobody
would notice. Threads that come one after the other are as good as one.
"""

from __future__ import annotations

import sys
import threading

#: Where threads of Python's own pools wait for their next task.
_WAITING = (("concurrent.futures.thread", "_worker"), ("multiprocessing.pool", "worker"))
_lock = threading.Lock()
_last: threading.Thread | None = None


class MetBeside(RuntimeError):
    """Two threads of a rank meet other ranks at the same time: they would take each other's messages."""


def take_turn() -> None:
    """To be called where ranks meet. Raises MetBeside where another thread has met them that is still at work."""
    global _last
    me = threading.current_thread()
    if me is _last or isinstance(me, threading._DummyThread):  # the latter: of torch's backward pass
        return
    with _lock:
        main, other = threading.main_thread(), _last
        if other is not None and other is not main and other.is_alive() and not (me is main and _waits(other)):
            raise MetBeside(
                f"ranks would meet in the threads `{other.name}` and `{me.name}` at the same time, where each comes in "
                "any order and would be given what was meant for the other: let it be done before these are started, "
                "and hand over what came of it"
            )
        _last = me


def _waits(thread: threading.Thread) -> bool:
    """Whether a thread of a pool has nothing to do."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is None or (frame.f_globals.get("__name__"), frame.f_code.co_name) in _WAITING
