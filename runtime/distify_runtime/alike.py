"""Passes over samples that every rank makes whole: what is drawn on the way is the same on all of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar

from distify_runtime.environment import is_alone
from distify_runtime.main_process import from_main_process
from distify_runtime.meeting import by_itself, collective
from distify_runtime.proxy import Proxy
from distify_runtime.randomness import drawing_alike
from distify_runtime.views import is_whole

T = TypeVar("T")

#: How often ranks have come by each place, of those that let them draw alike.
_passes: Counter[str] = Counter()


@by_itself
def alike(loader: T) -> T:
    """The loader, of which each pass is alike on all ranks: its samples, and what is drawn while they are gone through.

    For evaluations that every rank makes whole, after `rt.seed_ranks_apart()`: with an augmentation or a dropout of its
    own each rank would have another loss, and all decide by it. Each rank goes on afterwards with its own random
    numbers as if nothing had been drawn. A loader whose samples are dealt out over the ranks comes back as it is.
    """
    if is_alone() or not is_whole(loader):
        return loader
    frame = sys._getframe(1)
    return _Alike(loader, f"{frame.f_code.co_filename}:{frame.f_lineno}")  # type: ignore[return-value]


@collective
def from_main_process_each(loader: T) -> T:
    """The loader, of which each pass gives rank 0's batches on every rank, each sent as `rt.from_main_process` does.

    For samples that something draws by random numbers of its own in each process. All ranks load: rank 0's batches are
    those that are used. A loader whose samples are dealt out over the ranks comes back as it is.
    """
    return loader if is_alone() or not is_whole(loader) else _Sent(loader)  # type: ignore[return-value]


class _Alike(Proxy):
    _own = frozenset({"_place"})

    def __init__(self, inner: Any, place: str) -> None:
        super().__init__(inner)
        self._place = place

    def __iter__(self) -> Iterator[Any]:
        _passes[self._place] += 1
        with drawing_alike(f"{self._place.rpartition(':')[2]}/{_passes[self._place]}"):
            yield from self._inner

    def __len__(self) -> int:
        return len(self._inner)


class _Sent(Proxy):
    def __iter__(self) -> Iterator[Any]:
        return map(from_main_process, self._inner)

    def __len__(self) -> int:
        return len(self._inner)
