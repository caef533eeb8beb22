"""What a forward pass leaves in attributes of its model, to be read outside: outputs by another way.

They are gathered at the end of the pass, also those that nobody reads: to gather is for all ranks, and a script may
read an attribute on one (`if rank == 0: print(model.attention)`), or save it with the model.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import is_
from typing import Any

from torch import Tensor, nn

from distify_runtime.shared.copies import Copies
from distify_runtime.shared.structure import Unknown, rebuilt, tensors_in

#: What a module itself is made of, and what the hooks of torch keep in it.
_OF_TORCH = frozenset(vars(nn.Module()))


class Watched:
    """The attributes of a model that hold tensors, and other ones than before the pass."""

    def __init__(self, model: nn.Module, copies: Copies) -> None:
        self._before = [(vars(module), dict(vars(module))) for module in model.modules()]
        self._copies = copies

    def now(self) -> list[Tensor]:
        """Their tensors, in an order that follows from the model."""
        return [tensor for *_, tensors in self._changed() for tensor in tensors if not self._copies.has(tensor)]

    def replace(self, tensors: Iterator[Tensor]) -> None:
        """The same values, with these tensors; and what holds copies of parameters (recurrent layers do) as it was."""
        for attributes, before, name, held in list(self._changed()):
            if not any(map(self._copies.has, held)):
                attributes[name] = rebuilt(attributes[name], tensors)
            elif name in before:
                attributes[name] = before[name]
            else:
                del attributes[name]

    def _changed(self) -> Iterator[tuple[dict[str, Any], dict[str, Any], str, list[Tensor]]]:
        for attributes, before in self._before:
            if attributes.keys() == before.keys() and all(map(is_, attributes.values(), before.values())):
                continue  # as most are, in each pass
            for name, value in attributes.items():
                if before.get(name) is value or name in _OF_TORCH or isinstance(value, int | float):
                    continue
                if tensors := _held(value):
                    yield attributes, before, name, tensors


def _held(value: Any) -> list[Tensor]:
    if isinstance(value, list) and value and all(isinstance(one, weakref.ref) for one in value):
        value = [one() for one in value]  # as recurrent layers keep their weights
    try:
        return tensors_in(value)
    except Unknown:
        return []


class _Before(int):
    """A number that is still there if the pass has not put another one in its place."""


@contextmanager
def sizes_made_whole(model: nn.Module, sizes: Iterable[tuple[str, str]], mine: int, samples: int) -> Iterator[None]:
    """Let what counts a rank's samples (`self.batch_size = len(x)`) count those of the whole batch afterwards."""
    held = [(vars(model.get_submodule(name)), attribute) for name, attribute in sizes]
    for attributes, attribute in held:
        if type(attributes.get(attribute)) is int:
            attributes[attribute] = _Before(attributes[attribute])
    try:
        yield
    finally:
        for attributes, attribute in held:
            value = attributes.get(attribute)
            if type(value) is _Before:
                attributes[attribute] = int(value)
            elif type(value) is int:
                attributes[attribute] = value // mine * samples
