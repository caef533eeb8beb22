"""What sharing costs, and what it saves: told once, where it does not pay."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from distify_runtime.environment import world_size
from distify_runtime.output import note

#: Steps that are not counted, because models are checked in them, and those that are.
_BEFORE, _COUNTED = 10, 20
#: A backward pass takes about twice as long as the forward pass.
_BACKWARD = 2.0

_steps = 0
_meeting = _computing = 0.0


@contextmanager
def of_meeting() -> Iterator[None]:
    """Ranks exchange something, or wait for each other."""
    global _meeting
    began = time.perf_counter()
    try:
        yield
    finally:
        _meeting += time.perf_counter() - began


@contextmanager
def of_computing(counts: bool) -> Iterator[None]:
    """This rank computes its part. counts: of consequence, not only to be compared."""
    global _computing
    began, met = time.perf_counter(), _meeting
    try:
        yield
    finally:
        backward = _BACKWARD if torch.is_grad_enabled() else 0.0
        if counts:
            _computing += (time.perf_counter() - began - (_meeting - met)) * (1 + backward)


def step() -> None:
    """An optimizer takes a step. GPUs compute while nobody waits for them: there, these times say nothing."""
    global _steps, _meeting, _computing
    _steps += 1
    if _steps == _BEFORE:
        _meeting = _computing = 0.0
    if _steps != _BEFORE + _COUNTED or torch.cuda.is_available():
        return
    cost, saved = (seconds / _COUNTED * 1e3 for seconds in (_meeting, _computing * (world_size() - 1)))
    if cost > saved:
        note(
            f"sharing forward passes costs more than it saves: in a step, exchanging takes {cost:.1f} ms, and "
            f"{saved:.1f} ms of computing are spared. A larger batch, or one process, would be faster"
        )
