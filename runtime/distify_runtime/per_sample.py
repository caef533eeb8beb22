"""What of a batch holds one element for each sample, and is no tensor."""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

from torch import Tensor

Leaf: TypeAlias = Tensor | list[Any] | tuple[Any, ...]  # with one row, or element, per sample


def is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_per_sample(value: Any) -> bool:
    """Lists, and what `default_collate` makes of the texts of samples that are tuples.

    A tuple of numbers may as well be one per output of a model.
    """
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return bool(value) and all(isinstance(element, str | bytes) for element in value)
    return isinstance(value, list) and not _holds_tensor(value)


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, Tensor) or (isinstance(value, list | tuple) and any(map(_holds_tensor, value)))
