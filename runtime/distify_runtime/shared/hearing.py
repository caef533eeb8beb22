"""Hooks that are told of gradients inside of a model. What they keep would be of a part of the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

_on_tensors = 0


def one_more() -> None:
    """A tensor that was computed has been given one."""
    global _on_tensors
    _on_tensors += 1


def on_tensors() -> int:
    """How many were given to tensors so far."""
    return _on_tensors


def of(module: nn.Module) -> list[Callable[..., Any]]:
    """Those that a module has itself."""
    held: Any = module
    return [*held._backward_hooks.values(), *held._backward_pre_hooks.values()]


def is_heard(model: nn.Module, before: int) -> bool:
    """Whether a model has any, or tensors were given some since there were as many as `before`."""
    return on_tensors() != before or any(map(of, model.modules()))
