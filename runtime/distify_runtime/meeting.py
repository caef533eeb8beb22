"""Whether ranks meet in a function is said where it is defined: one of these stands above all that scripts call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])

#: What has been said, of functions and of classes that scripts make objects of.
said: dict[Any, bool] = {}


def collective(function: T) -> T:
    """Ranks meet in it, or may, in what it gives, too: whoever comes alone may wait for ever."""
    said[function] = True
    return function


def by_itself(function: T) -> T:
    """A rank may call it alone, also where the others never come; what it gives, too, if that is called."""
    said[function] = False
    return function
