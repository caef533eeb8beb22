"""What nn.DataParallel did beside: a model's inputs come to the device of the model."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from distify_runtime.meeting import by_itself
from distify_runtime.noticing import notice

T = TypeVar("T")
_moving: weakref.WeakSet[nn.Module] = weakref.WeakSet()


@by_itself
def inputs_to_device(model: T) -> T:
    """Let a call of `model` move tensors among its arguments to its device, in place; also in tuples, lists, dicts.

    `nn.DataParallel(model)` does so for what a loader leaves on the CPU. Returns the model, which stays what it is.
    """
    if isinstance(model, nn.Module) and not isinstance(model, torch.jit.ScriptModule):
        _moving.add(model)
        notice(model, "forward", _call, "_distify_moves")
    return model


def _call(owner: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if owner not in _moving:
        return function(*args, **kwargs)
    own = next(itertools.chain(owner.parameters(), owner.buffers()), None)
    if own is None:
        return function(*args, **kwargs)
    return function(*_moved(args, own.device), **_moved(kwargs, own.device))


def _moved(value: Any, device: torch.device) -> Any:
    """What holds no tensor, or is of a kind that nn.DataParallel does not look into, stays the same object."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(one, device) for one in value))
    if type(value) in (tuple, list):
        return type(value)(_moved(one, device) for one in value)
    if isinstance(value, dict):
        items = [(key, _moved(one, device)) for key, one in value.items()]
        return type(value)(items) if any(one is not value[key] for key, one in items) else value
    return value
