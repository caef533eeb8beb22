"""Puts functions around those of torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def wrap(owner: object, name: str, around: Callable[..., Any]) -> None:
    """Replaces a function of a module or class by `around(original, *its arguments)`."""
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(lambda *args, **kwargs: around(original, *args, **kwargs)))
