"""The parameters of a model as a shared forward pass uses them: copies whose gradients are summed over the ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from distify_runtime.shared import operations
from distify_runtime.shared.messages import Tag

#: A parameter as it was when it was copied: another one needs another copy.
_Key = tuple[int, int, int]


def made_by_hooks(model: nn.Module) -> dict[str, Tensor]:
    """Weights that hooks make of parameters before each call of `forward`, by their names: as old `weight_norm` does.

    The hooks of its parts come by inside of the call.
    """
    held = vars(model).items() if model._forward_pre_hooks else ()
    return {name: one for name, one in held if isinstance(one, Tensor) and one.requires_grad}


class Copies:
    """Of a model's parameters that gradients flow to. One set serves all passes until a parameter changes."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._slots: list[tuple[dict[str, Any], str, Tensor]] = []
        self._strays: list[Tensor] = []
        self._keys: list[_Key] = []
        self._copied: list[Tensor] = []  # kept: another tensor may come to lie where one was
        self._of: dict[int, Tensor] = {}
        self._ours: set[int] = set()
        self._places: dict[int, int] = {}
        self.anchor: Tensor | None = None

    def refresh(self, tag: Tag) -> None:
        """To be called before each pass with gradients. Makes new copies where a parameter is not what it was."""
        self._slots = [
            (module._parameters, name, parameter)
            for module in self._model.modules()
            for name, parameter in module._parameters.items()
            if parameter is not None and parameter.requires_grad
        ] + [(vars(self._model), name, one) for name, one in made_by_hooks(self._model).items()]
        distinct = {id(parameter): parameter for _, _, parameter in self._slots}
        distinct |= {id(tensor): tensor for tensor in self._strays}
        keys = [(identity, one._version, one.data_ptr()) for identity, one in distinct.items()]
        if keys == self._keys and self.anchor is not None:
            return
        self._keys, self._of, self._places, self.anchor = keys, {}, {}, None
        self._copied = list(distinct.values())
        if distinct:
            copies, self.anchor = operations.copy(tag, self._copied)
            self._of = dict(zip(distinct, copies, strict=True))
        self._ours = {*distinct, *map(id, self._of.values())}

    def parameters(self) -> list[Tensor]:
        """What gradients of the model flow to."""
        own: list[Tensor] = [one for one in self._model.parameters() if one.requires_grad]
        own += made_by_hooks(self._model).values()
        return [*own, *(one for one in self._strays if all(one is not other for other in own))]

    def add_strays(self, tensors: list[Tensor]) -> None:
        """Tensors that the model reaches by another way than as its parameters."""
        known = self.parameters()
        self._strays += [one for one in tensors if all(one is not other for other in known)]

    def has(self, tensor: Tensor) -> bool:
        """Whether this is a parameter of the model, or a copy of one."""
        return id(tensor) in self._ours

    def made(self) -> list[Tensor]:
        """The copies that there are now, and the zero that hangs on them."""
        return [*self._of.values(), *([] if self.anchor is None else [self.anchor])]

    def place_of(self, tensor: Tensor | None) -> int:
        """Of a parameter (or its copy) or a buffer, counted from 1 through the model; 0: none of these."""
        if tensor is None:
            return 0
        if not self._places:
            own = [*self._model.parameters(), *self._model.buffers()]
            self._places = {id(one): number for number, one in enumerate(own, 1)}
        return self._places.get(id(tensor), 0)

    def forget(self) -> None:
        """Let go of the graph that the copies hold."""
        self._keys, self._copied, self._of, self.anchor = [], [], {}, None

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model computes with the copies."""
        if not torch.is_grad_enabled() or not self._of:
            yield
            return
        replaced = self._slots
        for parameters, name, parameter in replaced:
            parameters[name] = self._of[id(parameter)]
        try:
            with _strays_replaced(self._strays, self._of):
                yield
        finally:
            for parameters, name, parameter in replaced:
                if parameters.get(name) is self._of[id(parameter)]:  # the pass may have put another one there
                    parameters[name] = parameter


@contextmanager
def _strays_replaced(strays: list[Tensor], copies: dict[int, Tensor]) -> Iterator[None]:
    if not strays:
        yield
        return
    with _Replacing({id(one): copies[id(one)] for one in strays}):
        yield


class _Replacing(torch.overrides.TorchFunctionMode):
    """Gives functions other tensors than they are called with: for those that no attribute of the model holds."""

    def __init__(self, replaced: dict[int, Tensor]) -> None:
        super().__init__()
        self._replaced = replaced

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*self._swapped(args), **{name: self._swapped(one) for name, one in (kwargs or {}).items()})

    def _swapped(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._replaced.get(id(value), value)
        if type(value) in (tuple, list):
            return type(value)(self._swapped(one) for one in value)
        return value
