"""What came of a bench, in figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distify.bench.model import Link, Predicted
from distify.bench.timings import Timings


@dataclass(frozen=True)
class Report:
    """measured: by number of ranks, one first. checked: predictions for numbers that were measured, too.

    weak: each rank keeps the batch, so that N ranks do N times as much in a step.
    """

    script: str
    how: str  # the converted script came to be
    machine: str
    weak: bool
    measured: Sequence[Timings]
    predicted: Sequence[Predicted] = ()
    checked: Sequence[Predicted] = ()
    link: Link | None = None  # between ranks that are not here
    notes: Sequence[str] = ()

    @property
    def alone(self) -> Timings:
        return self.measured[0]

    @property
    def most(self) -> Timings:
        return self.measured[-1]

    def speed_up(self, one: Timings | Predicted) -> float:
        """How much faster than one rank; ideally the number of ranks."""
        times = self.alone.step / one.step if one.step else 0.0
        return times * one.ranks if self.weak else times

    def off(self, one: Predicted) -> float:
        """By which part a prediction misses what was measured."""
        measured = next(known for known in self.measured if known.ranks == one.ranks)
        return one.step / measured.step - 1
