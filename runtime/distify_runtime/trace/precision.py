"""float64 throughout, so that rounding stays far below every mistake; also where a script says float."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.amp import GradScaler, autocast
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode

from distify_runtime.patching import enter, wrap
from distify_runtime.trace.moment import NOW

#: What makes a tensor of data that has a type of its own.
_MAKERS = (torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy, torch.frombuffer)
_FLOATS = ("torch.FloatTensor", "torch.cuda.FloatTensor")
#: Adam turns a gradient of rounding noise into a full step; a larger `eps` keeps it noise.
_LEAST_EPSILON = 1e-3


#: What is called in place of functions of torch's, with the function, its arguments and those with names.
_handlers: dict[Any, Callable[[Any, Any, Any], Any]] = {}
_entered: list[TorchFunctionMode] = []


def handle(functions: dict[Any, Callable[[Any, Any, Any], Any]]) -> None:
    """Has these called instead. In one mode: each costs a call for all that is asked of torch, attributes included."""
    _handlers.update(functions)
    if not _entered:
        _begin(_Handled())


def _begin(mode: TorchFunctionMode) -> None:
    _entered.append(mode)
    enter(mode)


class _Handled(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        handler = _handlers.get(func)
        return handler(func, args, kwargs or {}) if handler else func(*args, **(kwargs or {}))


class _Wide(TorchFunctionMode):
    """Who asks for float gets double."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.float:
            return Tensor.double(args[0])
        if func is Tensor.view and args[0].dtype != torch.float64:
            return _widened(func(*args, **(kwargs or {})))  # what bytes are looked at as is what they are
        for one in args:
            if _is_float(one):
                args = tuple(torch.float64 if _is_float(one) else one for one in args)
                break
        if kwargs:
            kwargs = {name: torch.float64 if _is_float(one) else one for name, one in kwargs.items()}
        handler = _handlers.get(func)
        result = handler(func, args, kwargs or {}) if handler else func(*args, **(kwargs or {}))
        if func in _MAKERS and result.dtype == torch.float32:
            return result.double().requires_grad_(result.requires_grad)
        return result


def _is_float(value: object) -> bool:
    return value is torch.float32 or (isinstance(value, str) and value in _FLOATS)


def compute_in(dtype: str, mixed: bool = False) -> None:
    """From here on `float64`, or what the script itself says; in mixed precision only if that is asked for."""
    wrap(autocast, "__init__", _noted if mixed else _disabled)
    if not mixed:
        wrap(GradScaler, "__init__", _disabled)
    if dtype == "float32":
        wrap(Optimizer, "__init__", _with_epsilon)
        return
    torch.set_default_dtype(torch.float64)
    _begin(_Wide())
    vars(torch)["FloatTensor"] = vars(torch)["DoubleTensor"]
    if torch.cuda.is_available():
        vars(torch.cuda)["FloatTensor"] = vars(torch.cuda)["DoubleTensor"]
    wrap(torch, "from_numpy", lambda original, array: _widened(original(array)))
    wrap(torch._utils, "_rebuild_tensor", _rebuilt)
    for library in (torch, pickle):
        wrap(library, "load", lambda original, *args, **kwargs: _widened(original(*args, **kwargs)))


def _rebuilt(original: Any, *args: Any, **kwargs: Any) -> Any:
    """A tensor of the type that its bytes are of. They may not have been read yet: it is widened by who has it."""
    with torch._C.DisableTorchFunction():
        return original(*args, **kwargs)


def _noted(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    original(self, *args, **kwargs)
    NOW.mixed |= bool(self._enabled)


def _disabled(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    _noted(original, self, *args, **kwargs)
    self._enabled = False


def _with_epsilon(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    original(self, *args, **kwargs)
    for group in (self.defaults, *self.param_groups):
        if isinstance(group.get("eps"), float):
            group["eps"] = max(group["eps"], _LEAST_EPSILON)


def _widened(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _as_double(value) if value.dtype == torch.float32 else value
    if isinstance(value, torch.nn.Module):
        module: Any = value
        return module._apply(lambda one: one.double() if one.is_floating_point() else one)
    if type(value) in (list, tuple):
        return type(value)(map(_widened, value))
    if isinstance(value, dict):
        for name in list(value):
            value[name] = _widened(value[name])
    return value


def _as_double(tensor: Tensor) -> Tensor:
    """What an optimizer may be given stays that, and so does a parameter."""
    wide = tensor.detach().double().requires_grad_(tensor.requires_grad)
    return torch.nn.Parameter(wide, wide.requires_grad) if isinstance(tensor, torch.nn.Parameter) else wide
