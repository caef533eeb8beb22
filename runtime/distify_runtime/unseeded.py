"""Seeds that nobody names, where all ranks draw alike: they follow from what has been drawn, not from the system.

`np.random.seed()` in a sampler gives an order that no other run has. In one process any order will do; ranks that deal
out its samples need one and the same.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_BITS = 31
_NAMES = ("a", "seed")  # of the first argument: Python's, and NumPy's
_Function = Callable[..., Any]


@contextmanager
def as_drawn() -> Iterator[None]:
    """Within this, what is seeded with nothing is seeded with what its own stream draws next."""
    replaced = list(_seeding())
    kept = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    for owner, name, instead in replaced:
        setattr(owner, name, instead)
    try:
        yield
    finally:
        for owner, name, original in kept:
            setattr(owner, name, original)


def _seeding() -> Iterator[tuple[Any, str, _Function]]:
    yield torch, "seed", _seed_torch
    yield random, "seed", _told(random.seed, lambda: random.getrandbits(_BITS))
    numpy: Any = sys.modules.get("numpy")
    for name in ("seed", "default_rng") if numpy is not None else ():
        yield numpy.random, name, _told(getattr(numpy.random, name), lambda: int(numpy.random.randint(2**_BITS)))


def _told(original: _Function, drawn: Callable[[], int]) -> _Function:
    def told(*given: Any, **named: Any) -> Any:
        is_told = any(one is not None for one in (*given[:1], *(named[name] for name in _NAMES if name in named)))
        rest = {name: value for name, value in named.items() if name not in _NAMES}
        return original(*given, **named) if is_told else original(drawn(), *given[1:], **rest)

    return told


def _seed_torch() -> int:
    """Of the CPU's generator alone: a GPU's is not one of the streams that are drawn alike."""
    seed = int(torch.randint(2**_BITS, (), device="cpu"))
    torch.default_generator.manual_seed(seed)
    return seed
