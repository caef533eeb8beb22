"""Lists, dictionaries and their like, also those of classes derived from them: what they hold, kept and put back."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import torch
from torch import Tensor

#: Each is filled and emptied by its own methods, whatever a class derived from it makes of those.
_BASES: tuple[Any, ...] = (OrderedDict, dict, list, set, deque)
KINDS = frozenset({*_BASES, Counter, defaultdict})


def base_of(value: Any) -> Any:
    """The kind of container that it is, or None."""
    return next((base for base in _BASES if isinstance(value, base)), None)


def held_in(container: Any) -> Any:
    """All that it holds: a plain dictionary, or a list."""
    base = base_of(container)
    return dict(base.items(container)) if issubclass(base, dict) else list(base.__iter__(container))


def refill(container: Any, content: Any) -> bool:
    """Let a container hold what it held; whether it did not."""
    if identities(container) == identities(content):
        return False
    base = base_of(container)
    base.clear(container)
    if issubclass(base, dict):
        for key, value in content.items():
            base.__setitem__(container, key, value)
    else:
        base.extend(container, content) if base in (list, deque) else base.update(container, content)
    return True


def identities(container: Any) -> list[int]:
    """What it holds, by identity."""
    base = base_of(container)
    pairs = base.items(container) if issubclass(base, dict) else ((None, one) for one in base.__iter__(container))
    return [id(part) for pair in pairs for part in pair]


def as_array(value: Any) -> Any:
    """NumPy's array of numbers, or None; without NumPy, there is none."""
    numpy = sys.modules.get("numpy")
    return value if numpy is not None and type(value) is numpy.ndarray and value.dtype.kind in "biuf" else None


def entries_of(array: Any) -> Tensor:
    """The numbers of NumPy's array."""
    return torch.from_numpy(array.astype("float64").ravel())
