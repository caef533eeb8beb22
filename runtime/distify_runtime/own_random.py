"""Packages that rank 0 alone calls draw from random numbers of their own: what they take of the script's, the other
ranks would not have taken.

A tracker makes up the name of a run, or waits a random while before it asks a server again, perhaps in a thread: from
then on whatever the script draws with `random` would be something else on rank 0.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

_packages: frozenset[str] = frozenset()


def draw_by_themselves(packages: Sequence[str]) -> None:
    """From here on, for the functions of Python's `random` that they call by its name: `random.choice(...)`."""
    global _packages
    if packages and not _packages:
        own = random.Random()
        for name in vars(random).keys() & {one for one in dir(own) if not one.startswith("_")}:
            setattr(random, name, _chosen(getattr(random, name), getattr(own, name)))
    _packages |= frozenset(packages)


def _chosen(function: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        return (own if caller.partition(".")[0] in _packages else function)(*args, **kwargs)

    return drawn
