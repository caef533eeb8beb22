"""Random numbers of a shared forward pass: each rank's own, but for what is drawn alike; the script's outside of it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from distify_runtime import accelerators
from distify_runtime.environment import rank
from distify_runtime.meeting import by_itself
from distify_runtime.randomness import common_seed, seed_host
from distify_runtime.watch import randomness


class Stream:
    """Where torch, `random` and, once something is seen to draw from it, NumPy are in a stream."""

    def __init__(self, seed: int) -> None:
        outside = _state(numpy=True)
        seed_host(seed)
        accelerators.seed(seed)
        self._state = _state(numpy=True)
        _set_state(outside)

    @contextmanager
    def drawn(self, sources: Sources) -> Iterator[None]:
        """Draw from this stream; afterwards the script's goes on as if nothing but what is drawn alike had been."""
        global _alike, _outside, _drawn_alike
        before, numpy = (_alike, _outside), sources.numpy
        _alike, _outside = sources.alike, _state(numpy)
        _drawn_alike = _outside if _alike else None
        _set_state({name: self._state[name] for name in _outside.keys() - _alike})
        try:
            yield
        finally:
            now = _state(numpy)
            self._state |= {name: now[name] for name in now.keys() - _alike}
            _set_state({**_outside, **{name: now[name] for name in now.keys() & _alike}})
            _alike, _outside = before


@dataclass
class Sources:
    """Which streams a model draws from: of which a part of a batch takes as many numbers as the whole, it draws for the
    batch at once, and every rank takes them from the script's stream, as one process does.

    `numpy`: whether anything is seen to draw from NumPy's.
    """

    numpy: bool = False
    _of_batches: set[str] = field(default_factory=set)
    _of_samples: set[str] = field(default_factory=set)

    @property
    def alike(self) -> frozenset[str]:
        return frozenset(self._of_batches - self._of_samples)

    def learn(self, whole: Positions, parts: Sequence[Positions]) -> None:
        """What a whole batch, and the ranks' parts of it, have drawn from one place on."""
        names = {name for one in (whole, *parts) for name in one if name != "torch"}
        self.numpy |= "numpy" in names
        for name in names:
            as_many = all(one.get(name) == whole.get(name) for one in parts)
            (self._of_batches if as_many else self._of_samples).add(name)

    def learn_of_tensors(self, along: Sequence[frozenset[int]], all_seen: bool) -> None:
        """Along which dimensions each draw of torch's has the batch. all_seen: no others have been made."""
        if along:
            at_once = all_seen and not any(along)
            (self._of_batches if at_once else self._of_samples).update(("torch", "accelerator"))


#: Where streams are, by their names.
Positions = dict[str, int]

_own: Stream | None = None

#: Of which streams a shared pass draws from the script's.
_alike: frozenset[str] = frozenset()

#: The script's streams, which are alike on all ranks, while a shared pass draws from the rank's own.
_outside: dict[str, Any] | None = None

#: Where they were before the last shared pass, if it has drawn from them.
_drawn_alike: dict[str, Any] | None = None
_is_alike = False  # within `draw_alike`


@by_itself
@contextmanager
def draw_alike() -> Iterator[None]:
    """Inside of a shared forward pass: what is drawn here is the same on all ranks, as a decision for the whole batch
    has to be (which layers to leave out, how long a sequence to take). Elsewhere all ranks draw alike anyway.

    It is drawn from the script's own streams, as in one process. Every rank has to come by as often as the others.
    """
    global _outside, _drawn_alike, _is_alike
    outside, before, _is_alike = _outside, _is_alike, True
    if outside is not None:
        _outside, _drawn_alike = None, _drawn_alike or outside
        own = _state("numpy" in outside)
        _set_state({name: outside[name] for name in outside.keys() - _alike})
    try:
        yield
    finally:
        _is_alike = before
        if outside is not None:
            _outside = _state("numpy" in outside)
            _set_state({name: own[name] for name in own.keys() - _alike})


def are_drawn_alike() -> bool:
    """Whether what is drawn now is, on all ranks, in one process's place."""
    return _is_alike


def draws_of_its_own() -> bool:
    """Whether what is drawn now comes from the rank's own stream, in a shared pass."""
    return _outside is not None


def take_back_draws() -> None:
    """The last shared pass counts for nothing: what it has drawn alike is drawn again."""
    if _drawn_alike is not None:
        _set_state(_drawn_alike)


def own_stream() -> Stream:
    """This rank's stream, which all shared models draw from. The first call has to be made by all ranks."""
    global _own
    if _own is None:
        _own = Stream(random.Random(f"{common_seed()}/shared/{rank()}").getrandbits(31))
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


def rewinding(generator: Any) -> Callable[[], Any] | None:
    """What has a generator of random numbers draw again what it draws from here on; None where something is none."""
    numpy: Any = sys.modules.get("numpy")
    if isinstance(generator, torch.Generator):
        return partial(generator.set_state, generator.get_state())
    if isinstance(generator, random.Random) and not isinstance(generator, random.SystemRandom):
        return partial(generator.setstate, generator.getstate())
    if numpy and isinstance(generator, numpy.random.RandomState):
        return partial(generator.set_state, generator.get_state())
    if numpy and isinstance(generator, numpy.random.Generator):
        return partial(setattr, generator.bit_generator, "state", generator.bit_generator.state)
    return None


def position_of(generator: Any) -> Any:
    """What changes when something is drawn from a generator that can be rewound."""
    if isinstance(generator, torch.Generator):
        return bytes(generator.get_state().tolist())
    if isinstance(generator, random.Random):
        return generator.getstate()
    return repr(generator.get_state() if hasattr(generator, "get_state") else generator.bit_generator.state)


def positions() -> Positions:
    """What changes when something is drawn."""
    return dict(zip(("torch", "python", "numpy"), randomness.positions(), strict=True))


def _state(numpy: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    found["accelerator"] = accelerators.random_state()
    if numpy and "numpy" in sys.modules:
        found["numpy"] = sys.modules["numpy"].random.get_state()
    return found


def _set_state(state: dict[str, Any]) -> None:
    for name, one in state.items():
        _SETTING[name](one)


_SETTING: dict[str, Callable[[Any], Any]] = {
    "torch": torch.set_rng_state,
    "python": random.setstate,
    "accelerator": accelerators.set_random_state,
    "numpy": lambda state: sys.modules["numpy"].random.set_state(state),
}
