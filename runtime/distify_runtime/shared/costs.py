"""Where the time of a step goes, and what sharing saves: told once, where it does not pay."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from distify_runtime.environment import world_size
from distify_runtime.output import note

#: Steps that are not counted, because models are checked in them, and those that are.
_BEFORE, _COUNTED = 10, 20
#: A backward pass takes about twice as long as the forward pass.
_BACKWARD = 2.0
#: Of gradients, which go over all ranks in buckets.
SUMS = "SUMS"

_steps = 0
_computing = 0.0
#: Seconds in which ranks exchange something, or wait for each other, by what it is.
_meeting: dict[str, float] = defaultdict(float)


@contextmanager
def of_meeting(what: str) -> Iterator[None]:
    """Ranks exchange something, or wait for each other."""
    began = time.perf_counter()
    try:
        yield
    finally:
        _meeting[what] += time.perf_counter() - began


def met(what: str) -> float:
    """Seconds in which ranks have exchanged this."""
    return _meeting[what]


def _met() -> float:
    return sum(_meeting.values())


@contextmanager
def of_computing(counts: bool) -> Iterator[None]:
    """This rank computes its part. counts: of consequence, not only to be compared."""
    global _computing
    began, before = time.perf_counter(), _met()
    try:
        yield
    finally:
        backward = _BACKWARD if torch.is_grad_enabled() else 0.0
        if counts:
            _computing += (time.perf_counter() - began - (_met() - before)) * (1 + backward)


def step() -> None:
    """An optimizer takes a step. GPUs compute while nobody waits for them: there, these times say nothing."""
    global _steps, _computing
    _steps += 1
    if _steps == _BEFORE:
        _meeting.clear()
        _computing = 0.0
    if _steps != _BEFORE + _COUNTED or torch.cuda.is_available():
        return
    cost, saved = (seconds / _COUNTED * 1e3 for seconds in (_met(), _computing * (world_size() - 1)))
    if cost > saved:
        note(
            f"sharing forward passes costs more than it saves: in a step, exchanging takes {cost:.1f} ms, and "
            f"{saved:.1f} ms of computing are spared. A larger batch, or one process, would be faster"
        )
