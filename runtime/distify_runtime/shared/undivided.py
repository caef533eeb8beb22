"""Forward passes that print or write: it would be of parts of a batch, and once more where a pass is checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distify_runtime.meeting import by_itself
from distify_runtime.shared import region

_is_checking = False


class Undivided(Exception):
    """What is being checked is to be computed with whole batches."""


@contextmanager
def while_checking() -> Iterator[None]:
    global _is_checking
    before, _is_checking = _is_checking, True
    try:
        yield
    finally:
        _is_checking = before


@by_itself
def compute_whole() -> None:
    """Let every rank compute the module in whose forward pass this stands, with whole batches.

    The first line of a forward pass that prints or writes, or that keeps something in some passes only. The modules
    that it calls are shared in its place, down to three levels. Does nothing where forward passes are not shared.
    """
    if _is_checking:
        raise Undivided("its forward pass writes or keeps something")
    if region.current() is not None:
        raise RuntimeError(
            "this forward pass writes or keeps something, and has begun with a part of the batch: let it say "
            "`rt.compute_whole()` in its first line"
        )
