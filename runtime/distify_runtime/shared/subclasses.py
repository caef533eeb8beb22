"""Tensors of other people's classes, which carry more than numbers: what a shared pass computes with, and gives back.

What such a class has beside its numbers (where a picture lies in space, what became of it) may not be cut as a batch
is: inside of a shared pass they are plain tensors, and what comes out is of their class where that is kept by whatever
is computed of it.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from distify_runtime.shared.structure import Unknown, mapped, tensors_in

_PLAIN = (Tensor, nn.Parameter, getattr(nn, "Buffer", nn.Parameter))


def first_of_another_class(value: Any) -> Tensor | None:
    """The first tensor of a class that only wraps plain ones in what it does."""
    try:
        return next((one for one in tensors_in(value) if _is_of_another_class(one)), None)
    except Unknown:
        return None


def _is_of_another_class(tensor: Tensor) -> bool:
    kind: Any = type(tensor)
    return kind not in _PLAIN and kind.__torch_dispatch__ is Tensor.__torch_dispatch__


def plain(value: Any) -> Any:
    """The same, of plain tensors, through which gradients flow as before."""
    return mapped(value, lambda one: one.as_subclass(Tensor) if _is_of_another_class(one) else one)


def like(given: Tensor, value: Any) -> Any:
    """What was computed of it, of the class and with all that one process would have found on it."""
    made = given.detach().sum()  # does it keep its class?
    kind = type(made)
    if kind is Tensor:
        return value

    def of_its_class(tensor: Tensor) -> Tensor:
        if type(tensor) is not Tensor:
            return tensor
        found = tensor.as_subclass(kind)
        vars(found).update(vars(made))
        return found

    return mapped(value, of_its_class)
