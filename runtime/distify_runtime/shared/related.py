"""Arguments of one call that follow from each other: `model(scores, hidden)`, of which `hidden` was made of `scores`;
and outputs that do: `return density, points`, of which the script asks for the gradient of the one by the other.

A shared pass takes a part of each argument by itself, and what lies between them is outside of it. A model that asks
for the gradient of one with respect to another would be told that there is none. What lies between outputs is inside,
between this rank's parts of them: there the gradient is found, and put together as the outputs were.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from distify_runtime import communicator
from distify_runtime.shared import hearing, operations
from distify_runtime.shared.graph import behind
from distify_runtime.shared.layouts import Layout, Rows
from distify_runtime.shared.messages import RanksParted, Tag, What
from distify_runtime.shared.readings import Readings

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


@dataclass(frozen=True)
class _Output:
    """What a shared pass has returned, by this rank's part of it."""

    part: Tensor
    layout: Layout
    beside: Sequence[Tensor]  # this rank's parts of all outputs
    tag: Tag
    anchors: Sequence[Tensor | None]

    @property
    def has_followers(self) -> bool:
        """Whether another output was made of it, so that there is a way between them."""
        return any(_is_behind(self.part, other) for other in self.beside)

    def gathered(self, gradient: Tensor) -> Tensor:
        """A collective. Raises RanksParted where it is of something that ranks have no parts of."""
        if not isinstance(self.layout, Rows):
            raise RanksParted(
                "distify: a gradient is wanted by an output of a shared forward pass that has no row for each sample, "
                "and that another output was made of: each rank has but its share of it. Let the model compute it"
            )
        tag = self.tag.of(What.GRADIENTS)
        return operations.gather(tag, [self.layout], [gradient], self.anchors, Readings(), 0)[0]


#: By the whole outputs that the script holds.
_outputs: Any = WeakTensorKeyDictionary()


def returned(
    tag: Tag, anchors: Sequence[Tensor | None], layouts: Sequence[Layout], parts: Sequence[Tensor],
    whole: Sequence[Tensor],
) -> None:  # fmt: skip
    """The outputs of a shared pass: this rank's parts, and what they were put together to."""
    flowing = [one for one in parts if one.requires_grad]
    if len(flowing) > 1:
        for layout, part, one in zip(layouts, parts, whole, strict=True):
            if part.requires_grad:
                _outputs[one] = _Output(part, layout, flowing, tag, anchors)


def gradients(original: Callable[..., Any], outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Around torch.autograd.grad."""
    if isinstance(inputs, Iterator):  # `net.parameters()`, which is gone through once
        inputs = tuple(inputs)
    listed = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    for wanted in listed:
        for place, one in enumerate(_standing):
            if one() is wanted and any(_is_behind(_given[place], other) for other in _given):
                raise Related("it asks for gradients of one of its arguments, which another of them was made of")
    inner = [_followed(one) if isinstance(one, Tensor) else None for one in listed]
    if not any(inner):
        return original(outputs, inputs, *args, **kwargs)
    asked = [one if output is None else output.part for one, output in zip(listed, inner, strict=True)]
    found = original(outputs, asked, *args, **kwargs)
    return tuple(
        one if output is None or one is None else output.gathered(one) for one, output in zip(found, inner, strict=True)
    )


def hooked(original: Callable[..., Any], tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Any:
    """Around Tensor.register_hook: what comes back by the other outputs, too, is what the hook is given."""
    output = _followed(tensor)
    if output is None:
        hearing.one_more()
        return original(tensor, hook)

    def inside(gradient: Tensor) -> Tensor | None:
        changed = hook(output.gathered(gradient))
        return None if changed is None else output.layout.take(changed, communicator.rank())

    return original(output.part, inside)


def retained(original: Callable[..., Any], tensor: Tensor) -> None:
    """Around Tensor.retain_grad."""
    if _followed(tensor) is None:
        original(tensor)
        return
    held, hooks = weakref.ref(tensor), cast(Any, tensor)

    def keep(gradient: Tensor) -> None:
        if (kept := held()) is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of a tensor for which torch keeps none
                kept.grad = gradient if kept.grad is None else kept.grad + gradient

    hooks.register_hook(keep)


def _followed(tensor: Tensor) -> _Output | None:
    """The output that others were made of, where it is one."""
    found: _Output | None = _outputs.get(tensor)
    return found if found is not None and found.has_followers else None


def _is_behind(one: Tensor, other: Tensor) -> bool:
    return one is not other and other.grad_fn is not None and behind(one, other)
