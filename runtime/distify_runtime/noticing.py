"""Calls are noticed where the class defines the method: objects stay as they are, and pickle as before."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from torch import nn

#: What is called in a method's place: with the object, what the method does of it, and what that is given.
Instead = Callable[[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def noticed_in(model: nn.Module, method: str) -> tuple[nn.Module, str] | None:
    """Whose method is noticed under which name, where `model.encode(x)` is called; None: the model has no such name.

    What a model has under a name may be a module of its own, or be handed on to a model that it is made around.
    Raises TypeError for what can be called and not noticed.
    """
    kind = next((vars(one)[method] for one in type(model).__mro__ if method in vars(one)), None)
    if method in vars(model) or isinstance(kind, FunctionType):
        return model, method
    held = getattr(model, method, None)
    if held is None:
        return None
    if isinstance(held, nn.Module):
        return held, "forward"
    owner = getattr(held, "__self__", None)
    if isinstance(owner, nn.Module) and isinstance(held, MethodType) and owner is not model:
        return noticed_in(owner, held.__name__)
    if kind is None or not callable(kind):
        kind_of = type(model).__name__
        raise TypeError(f"calls of `{method}` of {kind_of} cannot be shared: it is neither a method nor a module")
    return model, method


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
