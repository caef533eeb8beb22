"""Calls are noticed where the class defines the method: objects stay as they are, and pickle as before."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

#: What is called in a method's place: with the object, what the method does of it, and what that is given.
Instead = Callable[[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def notice(model: Any, method: str, instead: Instead, mark: str) -> None:
    """Have `instead` called where this method is. Harmless to call twice; `mark`: what is noticed, and for whom."""
    if method in vars(model):  # a method that was put into the object itself
        if not hasattr(vars(model)[method], mark):
            vars(model)[method] = _noticing_bound(model, vars(model)[method], instead, mark)
        return
    owner = next((one for one in type(model).__mro__ if method in vars(one)), None)
    if owner is not None and not hasattr(vars(owner)[method], mark):
        setattr(owner, method, _noticing(vars(owner)[method], instead, mark))


def _noticing(function: Callable[..., Any], instead: Instead, mark: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return instead(self, functools.partial(function, self), args, kwargs)

    setattr(forward, mark, True)
    return forward


def _noticing_bound(model: Any, function: Callable[..., Any], instead: Instead, mark: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return instead(model, function, args, kwargs)

    setattr(forward, mark, True)
    return forward
