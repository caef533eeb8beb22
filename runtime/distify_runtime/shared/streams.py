"""Random numbers of a shared forward pass: each rank's own inside, the script's untouched outside."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from distify_runtime.environment import rank
from distify_runtime.randomness import common_seed, seed_host


class Stream:
    """Where torch, `random` and, once something is seen to draw from it, NumPy are in a stream."""

    def __init__(self, seed: int) -> None:
        outside = _state(numpy=True)
        seed_host(seed)
        if torch.cuda.is_available():
            torch.cuda.manual_seed(seed)
        self._state = _state(numpy=True)
        _set_state(outside)

    @contextmanager
    def drawn(self, numpy: bool) -> Iterator[None]:
        """Draw from this stream; afterwards the one from before goes on as if nothing had been drawn."""
        outside = _state(numpy)
        _set_state({name: self._state[name] for name in outside})
        try:
            yield
        finally:
            self._state |= _state(numpy)
            _set_state(outside)


_own: Stream | None = None


_alike: Stream | None = None


@contextmanager
def draw_alike() -> Iterator[None]:
    """Inside of a shared forward pass: what is drawn here is the same on all ranks, as a decision for the whole batch
    has to be (which layers to leave out, how long a sequence to take). Elsewhere all ranks draw alike anyway.

    Every rank has to come by as often as the others.
    """
    if _alike is None:
        yield
        return
    with _alike.drawn(numpy=True):
        yield


def own_stream() -> Stream:
    """This rank's stream, which all shared models draw from. The first call has to be made by all ranks."""
    global _own, _alike
    if _own is None:
        seed = common_seed()
        _own = Stream(random.Random(f"{seed}/shared/{rank()}").getrandbits(31))
        _alike = Stream(random.Random(f"{seed}/alike").getrandbits(31))
    return _own


@contextmanager
def kept() -> Iterator[None]:
    """Let the streams go on afterwards as if nothing had been drawn."""
    before = _state(numpy=True)
    try:
        yield
    finally:
        _set_state(before)


class Rewound:
    """The streams as they are now, to be drawn from again."""

    def __init__(self) -> None:
        self._state = _state(numpy=True)

    def again(self) -> None:
        _set_state(self._state)


def numpy_position() -> Any:
    """Changes when something is drawn from NumPy's global stream; None where nothing has imported NumPy."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    state = numpy.random.get_state()
    return state[2], state[3], int(state[1][0])


def _state(numpy: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available():
        found["cuda"] = torch.cuda.get_rng_state()
    if numpy and "numpy" in sys.modules:
        found["numpy"] = sys.modules["numpy"].random.get_state()
    return found


def _set_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
    if "numpy" in state:
        sys.modules["numpy"].random.set_state(state["numpy"])
