"""What one rank does alone: the others do not come there, and nothing in it may meet them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class MetAlone(RuntimeError):
    """A rank would meet the others in what it does alone: they would take its messages for later ones."""


#: Whether this thread is in what one rank does alone; what goes on beside it, in other threads, is not.
_alone = ContextVar("distify_alone", default=False)


@contextmanager
def alone() -> Iterator[None]:
    """Under `with`, whatever would meet the other ranks raises MetAlone: they do not come here."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def is_alone() -> bool:
    """Whether this is in what one rank does alone."""
    return _alone.get()


def refuse_alone() -> None:
    if _alone.get():
        raise MetAlone(
            "ranks would meet in what rank 0 alone does: no other rank comes to what is called inside of "
            "`call_on_main_process`; call it before or after that, on every rank"
        )
