"""A model and one of its calls in double precision: rounding shrinks with the precision that is computed in, and a
mistake is as large as it was.

In single precision no bound tells them apart. Gradients of what stands before a BatchNorm may be nothing but rounding;
a BatchNorm of two values makes one or minus one of a difference that is; and where the last digit decides a `relu`, or
which of four numbers is the largest, a whole term is there or is not, however exact the rest is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
_CASTS = frozenset((torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16))
_READS_BYTES = frozenset((torch.Tensor.view,))  # where a dtype says how bytes are read


def doubled(tensor: Tensor) -> Tensor:
    """With the same values; itself where it holds no numbers, or holds them so."""
    return tensor.to(_WIDE[tensor.dtype]) if tensor.dtype in _WIDE else tensor


@contextmanager
def in_double(model: nn.Module, others: Iterable[Tensor]) -> Iterator[None]:
    """Let what is computed under `with` be computed so: with what the model holds, and these. They stay the objects
    that they are, and are afterwards what they were. Raises whatever torch does where there is no such thing.
    """
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # of weights that do not lie side by side
        for attributes, name, tensor in _made(model):
            stack.callback(attributes.__setitem__, name, tensor)
            attributes[name] = doubled(tensor.detach()).requires_grad_(tensor.requires_grad)
        for tensor in {id(one): one for one in (*_held(model), *others)}.values():
            if tensor.dtype in _WIDE and tensor.grad_fn is None:
                stack.callback(_set, tensor, tensor.data, tensor.grad)
                _set(tensor, doubled(tensor.data), None)
        for kind in ("cpu", "cuda"):
            stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(_Doubling())
        yield


def _set(tensor: Tensor, data: Tensor, gradient: Tensor | None) -> None:
    tensor.grad = None  # which has to be of the same dtype
    tensor.data = data
    tensor.grad = gradient


def _held(model: nn.Module) -> Iterator[Tensor]:
    yield from model.parameters()
    yield from model.buffers()
    for module in model.modules():
        for value in vars(module).values():
            held = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else (value,)
            yield from (one for one in held if isinstance(one, Tensor))


def _made(model: nn.Module) -> list[tuple[dict[str, Any], str, Tensor]]:
    """What attributes hold that was computed from something: its graph is not to be touched."""
    return [
        (vars(module), name, value)
        for module in model.modules()
        for name, value in vars(module).items()
        if isinstance(value, Tensor) and value.dtype in _WIDE and value.grad_fn is not None
    ]


class _Doubling(TorchFunctionMode):
    """What makes a tensor of narrower numbers makes one of wide ones."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [*args, *kwargs.values()]
        if any(isinstance(one, Tensor) and one.dtype in _WIDE for one in given):
            return func(*args, **kwargs)  # what is outside of the model is as it is
        if func not in _READS_BYTES:
            args, kwargs = tuple(map(_wide, args)), {name: _wide(one) for name, one in kwargs.items()}
        call: Callable[..., Any] = torch.Tensor.double if func in _CASTS else func
        found = call(*args, **kwargs)
        return doubled(found) if isinstance(found, Tensor) and func not in _READS_BYTES else found


def _wide(value: Any) -> Any:
    return _WIDE.get(value, value) if isinstance(value, torch.dtype) else value
