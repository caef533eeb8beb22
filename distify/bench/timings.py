"""What the runs wrote down, as figures of a step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distify_runtime.bench.clock import APART, BACKWARD, COMPUTING, LOADING, SYNCHRONISING, WAITING

#: In the order in which they are shown.
PARTS = (LOADING, COMPUTING, BACKWARD, *SYNCHRONISING)


@dataclass(frozen=True)
class Message:
    """What a rank hands over in a collective of a step. `overlaps`: while a backward pass still computes."""

    part: str
    kind: str
    size: int  # bytes of one rank
    overlaps: bool


@dataclass(frozen=True)
class Timings:
    """Of one number of ranks, all times in seconds.

    parts: of a step, each of `PARTS`, over the ranks' mean; they add up to `step`. low, high: quartiles of steps.
    waiting: of what is synchronised, what a rank waits for the slowest. apart: of all steps, beside them.
    messages: of each of the steps that the figures are of, where a process stood for a rank of many. joined: the other
    ranks. shares: forward passes alone. taken: steps, with those before the ones that count. samples: of one rank's
    batch; 0 where it was not seen.
    """

    ranks: int
    parts: Mapping[str, float]
    low: float
    high: float
    waiting: float
    apart: Mapping[str, float]
    taken: int
    counted: int
    threads: int
    device: str
    samples: int
    size: int  # bytes of all parameters that are trained
    joined: bool
    shares: bool = False
    messages: Sequence[Sequence[Message]] = ()

    @property
    def step(self) -> float:
        return sum(self.parts.values())

    @property
    def synchronising(self) -> float:
        return sum(self.parts[part] for part in SYNCHRONISING)

    @property
    def computing(self) -> float:
        return self.parts[COMPUTING] + self.parts[BACKWARD]


def timings_of(ranks: int, files: Sequence[Path]) -> Timings:
    """Of what each process has written."""
    told: list[dict[str, Any]] = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    steps = [one["steps"] for one in told]
    count = min(map(len, steps), default=0)
    totals = [sum(_total(of[step]) for of in steps) / len(steps) for step in range(count)]
    chosen = middle_of(totals)
    parts = {part: _mean(of[step].get(part, 0.0) for of in steps for step in chosen) for part in PARTS}
    ordered = sorted(totals)
    first = told[0]
    return Timings(
        ranks,
        parts,
        low=ordered[count // 4] if ordered else 0.0,
        high=ordered[(3 * count) // 4] if ordered else 0.0,
        waiting=_mean(_waiting([of[step] for of in steps]) for step in chosen),
        apart={part: _mean(sum(step.get(part, 0.0) for step in of) for of in steps) for part in APART},
        taken=min(one["taken"] for one in told),
        counted=count,
        threads=first["threads"],
        device=first["device"],
        samples=first["samples"],
        size=first["bytes"],
        joined=all(one["joined"] for one in told),
        shares=first["shares"],
        messages=tuple(tuple(Message(*one) for one in first["messages"][step]) for step in chosen),
    )


def middle_of(totals: Sequence[float]) -> list[int]:
    """The places of the middle half: those that begin a pass, and those in which the machine did something else, are
    in neither. The means of their parts add up to the mean of the whole, which medians do not."""
    ordered = sorted(range(len(totals)), key=lambda step: totals[step])
    return sorted(ordered[len(totals) // 4 : len(totals) - len(totals) // 4])


def _total(step: Mapping[str, float]) -> float:
    return sum(step.get(part, 0.0) for part in PARTS)


def _waiting(ranks: Sequence[Mapping[str, float]]) -> float:
    """In one step: who comes last waits for nobody."""
    taken = [sum(of.get(part, 0.0) for part in (*SYNCHRONISING, WAITING)) for of in ranks]
    return sum(taken) / len(taken) - min(taken)


def _mean(numbers: Any) -> float:
    known = list(numbers)
    return sum(known) / len(known) if known else 0.0
