"""What has been started side by side is taken in the order in which it was started: in whichever it ends, each rank
would have an order of its own."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any

from distify_runtime.environment import is_alone
from distify_runtime.meeting import by_itself


@by_itself
def in_order(fs: Iterable[Future[Any]], timeout: float | None = None) -> Iterator[Future[Any]]:
    """`concurrent.futures.as_completed`, which promises no order, in that of `fs`: the same on all ranks.

    timeout: seconds from this call on, for all of them; raises TimeoutError. Raises TypeError for a set, whose order
    is another one in each process.
    """
    if isinstance(fs, (set, frozenset)) and not is_alone():
        raise TypeError("distify: a set of futures has another order on each rank: give `as_completed` a list of them")
    end = None if timeout is None else time.monotonic() + timeout
    return _each(list(dict.fromkeys(fs)), end)


def _each(futures: list[Future[Any]], end: float | None) -> Iterator[Future[Any]]:
    for future in futures:
        with suppress(CancelledError):
            future.exception(None if end is None else max(0.0, end - time.monotonic()))
        yield future
