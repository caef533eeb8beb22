"""Puts functions around those of torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

from torch.overrides import TorchFunctionMode


def wrap(owner: object, name: str, around: Callable[..., Any]) -> None:
    """Replaces a function of a module or class by `around(original, *its arguments)`."""
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(lambda *args, **kwargs: around(original, *args, **kwargs)))


def enter(mode: TorchFunctionMode) -> None:
    """Has the mode see all of torch's functions from here on, to the end of the process."""
    cast(Any, mode).__enter__()
