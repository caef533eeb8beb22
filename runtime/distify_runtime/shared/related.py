"""Arguments of one call that follow from each other: `model(scores, hidden)`, of which `hidden` was made of `scores`.

A shared pass takes a part of each argument by itself, and what lies between them is outside of it. A model that asks
for the gradient of one with respect to another would be told that there is none.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from distify_runtime.shared.graph import behind

_given: Sequence[Tensor] = ()  # the call's own arguments
_standing: Sequence[weakref.ref[Tensor]] = ()  # what stands for them now, one for each


class Related(Exception):
    """The model asks for a gradient that only the whole call has."""


@contextmanager
def arguments(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Of a call that is shared, or compared with a shared one, under `with`."""
    global _given, _standing
    before = _given, _standing
    _given, _standing = tensors, ()
    try:
        yield
    finally:
        _given, _standing = before


def stand_for(tensors: Sequence[Tensor]) -> None:
    """Copies, or a rank's parts, of the arguments: in their order."""
    global _standing
    _standing = [weakref.ref(one) for one in tensors]


def gradients(original: Callable[..., Any], outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Around torch.autograd.grad."""
    if isinstance(inputs, Iterator):  # `net.parameters()`, which is gone through once
        inputs = tuple(inputs)
    for wanted in [inputs] if isinstance(inputs, Tensor) else inputs:
        for place, one in enumerate(_standing):
            if one() is wanted and any(_is_behind(_given[place], other) for other in _given):
                raise Related("it asks for gradients of one of its arguments, which another of them was made of")
    return original(outputs, inputs, *args, **kwargs)


def _is_behind(one: Tensor, other: Tensor) -> bool:
    return one is not other and other.grad_fn is not None and behind(one, other)
