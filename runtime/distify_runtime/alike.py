"""Passes over samples that every rank makes whole: what is drawn on the way is the same on all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from distify_runtime.environment import is_alone, rank
from distify_runtime.main_process import from_main_process
from distify_runtime.meeting import collective
from distify_runtime.proxy import Proxy
from distify_runtime.randomness import draws_apart, random_state, set_random_state
from distify_runtime.views import is_whole

T = TypeVar("T")


@collective
def alike(loader: T) -> T:
    """The loader, of which each pass is alike on all ranks: its samples, and what is drawn while they are gone through.

    For evaluations that every rank makes whole, after `rt.seed_ranks_apart()`: with an augmentation or a dropout of its
    own each rank would have another loss, and all decide by it. All draw what rank 0 draws, which goes on with the
    stream that it has, as one process does; the others go on afterwards as if nothing had been drawn. They take rank
    0's stream as a pass begins, so that every rank has to begin each. A loader whose samples are dealt out over the
    ranks comes back as it is.
    """
    return loader if is_alone() or not is_whole(loader) else _Alike(loader)  # type: ignore[return-value]


@collective
def from_main_process_each(loader: T) -> T:
    """The loader, of which each pass gives rank 0's batches on every rank, each sent as `rt.from_main_process` does.

    For samples that something draws by random numbers of its own in each process. All ranks load: rank 0's batches are
    those that are used. A loader whose samples are dealt out over the ranks comes back as it is.
    """
    return loader if is_alone() or not is_whole(loader) else _Sent(loader)  # type: ignore[return-value]


@contextmanager
def _drawing_as_rank_0() -> Iterator[None]:
    if not draws_apart():
        yield
        return
    own = random_state()
    common = from_main_process(own)
    if rank() == 0:
        yield
        return
    set_random_state(common)
    try:
        yield
    finally:
        set_random_state(own)


class _Alike(Proxy):
    def __iter__(self) -> Iterator[Any]:
        with _drawing_as_rank_0():
            yield from self._inner

    def __len__(self) -> int:
        return len(self._inner)


class _Sent(Proxy):
    def __iter__(self) -> Iterator[Any]:
        return map(from_main_process, self._inner)

    def __len__(self) -> int:
        return len(self._inner)
