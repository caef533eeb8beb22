"""What Python itself gives a conversion: how deep it may call, and how often memory is looked through."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

#: Allocations between collections. A conversion makes objects by the million and lets few go before its end; with
#: Python's own 700, more than a third of its time would go into looking at them again and again.
_THRESHOLDS = (200_000, 10, 10)
#: Trees are walked, and calls and imports of the script followed, by functions that call themselves: a sum of some
#: hundred terms, or a chain of some hundred imports, is deeper than Python's own 1,000.
_DEPTH = 6_000
#: Python keeps the frames of calls in chunks of 16 KiB, which it takes from the system and gives back by itself: calls
#: that go to and fro over the end of one wait for it each time. Behind a frame of so many words is room for all.
_WORDS = 600_000

_P = ParamSpec("_P")
_T = TypeVar("_T")


def with_room(work: Callable[_P, _T]) -> Callable[_P, _T]:
    """The function, with fewer collections and deeper calls while it runs."""

    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        thresholds, depth = gc.get_threshold(), sys.getrecursionlimit()
        gc.set_threshold(*map(max, thresholds, _THRESHOLDS))
        sys.setrecursionlimit(max(depth, _DEPTH))
        try:
            return work(*args, **kwargs)
        finally:
            gc.set_threshold(*thresholds)
            sys.setrecursionlimit(depth)

    run.__code__ = run.__code__.replace(co_stacksize=_WORDS)
    return wraps(work)(run)
