"""Where the time of a step goes, and what sharing saves: told once, where it does not pay."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter

from distify_runtime import accelerators
from distify_runtime.environment import world_size
from distify_runtime.output import note

#: Steps that are not counted, because models are checked in them, and those that are.
_BEFORE, _COUNTED = 10, 20
#: A backward pass takes about twice as long as the forward pass.
_BACKWARD = 2.0
#: What takes time, beside the kinds of messages: waiting for a loader, computing, and gradients in their buckets.
LOADING, COMPUTING, SUMS, SAMPLES = "LOADING", "COMPUTING", "SUMS", "SAMPLES"
SPARED = "SPARED"  # by loading shares of batches
_NOT_MET = (LOADING, COMPUTING, SPARED)
_SAID = {
    SUMS: "the sums of gradients",
    "OUTPUTS": "gathering outputs",
    "GRADIENTS": "gathering gradients of inputs",
    "SUM": "sums inside of models, as BatchNorm's",
    "SUM_BACKWARD": "sums inside of models, as BatchNorm's",
}

_steps = 0
_began = 0.0
_depth = 0  # of loaders that load by others
#: Seconds, by what they went to. Of exchanging, ranks waiting for each other included.
_taken: dict[str, float] = defaultdict(float)


@contextmanager
def of_meeting(what: str) -> Iterator[None]:
    """Ranks exchange something, or wait for each other."""
    began = time.perf_counter()
    try:
        yield
    finally:
        _taken[what] += time.perf_counter() - began


def spared(seconds: float) -> None:
    """A batch was loaded so much faster than each rank would have loaded it whole."""
    _taken[SPARED] += seconds


def taken(what: str) -> float:
    """Seconds that this took until now."""
    return _taken[what]


def all_taken() -> dict[str, float]:
    return dict(_taken)


def _met() -> float:
    return sum(seconds for what, seconds in _taken.items() if what not in _NOT_MET)


@contextmanager
def of_computing(counts: bool) -> Iterator[None]:
    """This rank computes its part. counts: of consequence, not only to be compared."""
    began, before = time.perf_counter(), _met()
    try:
        yield
    finally:
        backward = _BACKWARD if torch.is_grad_enabled() else 0.0
        if counts:
            _taken[COMPUTING] += (time.perf_counter() - began - (_met() - before)) * (1 + backward)


@contextmanager
def of_loading() -> Iterator[None]:
    """The script waits for a batch. What ranks exchange for it counts by itself."""
    global _depth
    began, before = time.perf_counter(), _met()
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0:
            _taken[LOADING] += time.perf_counter() - began - (_met() - before)


def watch_loaders() -> None:
    """Have all of torch's loaders timed from here on."""
    original: Any = _BaseDataLoaderIter.__next__
    if hasattr(original, "_distify_timed"):
        return

    @functools.wraps(original)
    def timed(self: Any) -> Any:
        with of_loading():
            return original(self)

    for owner, name, value in ((timed, "_distify_timed", True), (_BaseDataLoaderIter, "__next__", timed)):
        setattr(owner, name, value)


def step() -> None:
    """An optimizer takes a step."""
    global _steps, _began
    _steps += 1
    if _steps == _BEFORE:
        _taken.clear()
        _began = time.perf_counter()
    if _steps == _BEFORE + _COUNTED:
        whole = time.perf_counter() - _began
        _tell({what: seconds / _COUNTED * 1e3 for what, seconds in _taken.items()}, whole / _COUNTED * 1e3)


def _tell(taken: dict[str, float], whole: float) -> None:
    """taken, whole: milliseconds of a step. GPUs compute while nobody waits for them: there, some say nothing."""
    loading = taken.get(LOADING, 0.0) + taken.get(SAMPLES, 0.0)
    saved = taken.get(COMPUTING, 0.0) * (world_size() - 1) + taken.get(SPARED, 0.0)
    exchanged = {what: time for what, time in taken.items() if what not in (*_NOT_MET, SAMPLES)}
    cost = sum(exchanged.values())
    if cost > saved and not accelerators.kind():
        most = max(exchanged, key=lambda what: exchanged[what])
        note(
            f"sharing forward passes costs more than it saves: of a step of {whole:.1f} ms, exchanging takes "
            f"{cost:.1f} ms, most of it {_SAID.get(most, 'comparing ranks')} ({exchanged[most]:.1f} ms), and loading "
            f"{loading:.1f} ms; {saved:.1f} ms of computing and loading are spared. A larger batch, or one process, "
            "would be faster"
        )
    elif loading > whole / 2:
        note(
            f"most of a step is loading: {loading:.1f} of {whole:.1f} ms. Sharing forward passes does not make that "
            "faster; more workers of the loader (num_workers) may"
        )
