"""What a forward pass may change in a model, kept to be put back: a pass that is only compared leaves no trace."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from distify_runtime.sparse import dense

_CONTAINERS = (list, dict, set, deque)
_OF_TORCH = frozenset(vars(nn.Module()))
#: How the name of a parameter ends that a pass has written into.
WRITTEN = " (a parameter)"


class State:
    """Parameters, buffers, attributes and what they contain, of a model and all of its parts; which parts there are,
    and the hooks on them: a model may make them in its first pass.

    Its tensors are copied: while a call is checked, a process holds the model once more. parameters: these, too.
    """

    def __init__(self, model: nn.Module, parameters: bool = True) -> None:
        self._of = [(module, _kept(vars(module)), dict(module._buffers)) for module in model.modules()]
        held = [one for _, attributes, buffers in self._of for one in (*attributes.values(), *buffers.values())]
        self._tensors = {id(one): (one, one.detach().clone()) for one in held if isinstance(one, Tensor)}
        moved = model.named_parameters() if parameters else ()
        self._parameters = [(name, one, one.data, one.detach().clone()) for name, one in moved]
        self._contents = {id(one): (one, copy.copy(one)) for one in held if type(one) in _CONTAINERS}
        registered = [one for module, *_ in self._of for one in _registered(vars(module))]
        self._registered = [(one, dict(one)) for one in registered]

    @torch.no_grad()
    def put_back(self) -> None:
        for module, attributes, buffers in self._of:
            for name in _kept(vars(module)).keys() - attributes.keys():
                del vars(module)[name]
            vars(module).update(attributes)
            module._buffers.clear()
            module._buffers.update(buffers)
        for tensor, before in self._tensors.values():
            if tensor.shape != before.shape:  # a workspace that forward has made as large as its batch
                tensor.resize_(before.shape)
            if not _same(tensor, before):
                tensor.data.copy_(before)
        for _, parameter, data, before in self._parameters:  # a target network that forward moves
            if parameter.data_ptr() != data.data_ptr():
                parameter.data = data
            if not _same(parameter, before):
                parameter.data.copy_(before)
        for container, content in (*self._contents.values(), *self._registered):
            refill(container, content)

    def changed(self) -> dict[str, Tensor]:
        """The parameters and buffers that are other ones, or have other values, than they had; and tensors in
        attributes that were written into. (What is new in an attribute is an output, by another way.)
        """
        written = (each for each in self._parameters if not _same(each[1], each[3]))
        found = {name + WRITTEN: parameter.detach().clone() for name, parameter, _, _ in written}
        for index, (module, attributes, buffers) in enumerate(self._of):
            values = {**{name: one for name, one in attributes.items() if vars(module).get(name) is one}}
            for name, value in (*values.items(), *module._buffers.items()):
                if isinstance(value, Tensor) and not self._is_as_before(value, attributes.get(name, buffers.get(name))):
                    found[_told(module, name, index)] = value.detach().clone()
        return found

    def spreads(self) -> dict[str, float]:
        """By the names that `changed` gives running means: how far what they are means of is spread, as one norm.

        Layers after one another, with nothing in between that bends, have means of zero: nothing but rounding.
        """
        layers = ((index, one) for index, (one, *_) in enumerate(self._of) if isinstance(one, _NormBase))
        return {
            _told(layer, "running_mean", index): float(layer.running_var.detach().double().sum().sqrt())
            for index, layer in layers
            if layer.running_var is not None
        }

    def _is_as_before(self, value: Tensor, held: Tensor | None) -> bool:
        return value is held and _same(value, self._tensors[id(value)][1])


@contextmanager
def put_back(model: nn.Module) -> Iterator[State]:
    """The model as it was, after what is done under `with`."""
    state = State(model)
    try:
        yield state
    finally:
        state.put_back()


def _kept(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in attributes.items() if name not in _OF_TORCH or name == "training"}


def _registered(attributes: dict[str, Any]) -> list[dict[Any, Any]]:
    names = (name for name in _OF_TORCH if name == "_modules" or "_hooks" in name)  # and which of them take keywords
    return [attributes[name] for name in names if isinstance(attributes.get(name), dict)]


def _told(module: nn.Module, name: str, index: int) -> str:
    return f"{type(module).__name__}.{name} ({index})"


def _same(tensor: Tensor, before: Tensor) -> bool:
    same: bool = torch.equal(dense(tensor.detach()), dense(before))
    return same


def refill(container: Any, content: Any) -> bool:
    """Let a container hold what it held; whether it did not."""
    if _items(container) == _items(content):
        return False
    container.clear()
    container.extend(content) if isinstance(container, list | deque) else container.update(content)
    return True


def _items(container: Any) -> list[int]:
    """What it holds, by identity."""
    pairs = container.items() if isinstance(container, dict) else ((None, one) for one in container)
    return [id(part) for pair in pairs for part in pair]
