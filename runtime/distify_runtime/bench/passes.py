"""Passes over loaders: those whose batches are trained on, and those of an evaluation, which belong to no step."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor


@dataclass
class Pass:
    """`trains`: a backward pass came between two of its batches."""

    begin: float
    end: float
    backwards: int  # before its last batch
    trains: bool = False


@dataclass
class Passes:
    """`samples`: in the last batch that was trained on, of this rank; 0 where that cannot be seen."""

    backwards: int = 0
    samples: int = 0
    known: list[Pass] = field(default_factory=list)
    _open: Any = field(default_factory=WeakKeyDictionary)  # passes, by their iterators

    def asked(self, iterator: Any) -> Pass:
        """The script asks for a batch."""
        one: Pass | None = self._open.get(iterator)
        if one is None:
            now = perf_counter()
            one = self._open[iterator] = Pass(now, now, self.backwards)
            self.known.append(one)
        one.trains |= self.backwards > one.backwards
        one.backwards = self.backwards
        return one

    def given(self, iterator: Any, batch: Any) -> None:
        one = self._open[iterator]
        one.end = perf_counter()
        if one.trains:
            self.samples = _samples_in(batch)

    def over(self, iterator: Any) -> None:
        """There is no batch left."""
        self._open.pop(iterator).end = perf_counter()

    def evaluates(self, moment: float) -> bool:
        return any(one.begin <= moment <= one.end for one in self.known if not one.trains)


def _samples_in(batch: Any) -> int:
    """By the first tensor in it."""
    if isinstance(batch, Tensor):
        return batch.shape[0] if batch.dim() else 0
    inner = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else ()
    return next(filter(None, map(_samples_in, inner)), 0)
