"""What a forward pass may change in a model, kept to be put back: a pass that is only compared leaves no trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from distify_runtime.shared.containers import base_of, held_in, identities, refill
from distify_runtime.sparse import dense

_OF_TORCH = frozenset(vars(nn.Module()))
_NOTHING = object()
#: How the name of a parameter ends that a pass has written into.
WRITTEN = " (a parameter)"


class State:
    """Parameters, buffers, attributes and what they contain, of a model and all of its parts; which parts and
    parameters there are, and the hooks on them: a model may make them in its first pass.

    Its tensors are copied: while a call is checked, a process holds the model once more. parameters: these, too.
    """

    def __init__(self, model: nn.Module, parameters: bool = True) -> None:
        self._of = [(module, _kept(vars(module)), dict(module._buffers)) for module in model.modules()]
        self._places = [(module, dict(module._parameters)) for module in model.modules()]
        held = [one for _, attributes, buffers in self._of for one in (*attributes.values(), *buffers.values())]
        self._tensors = {id(one): (one, one.detach().clone()) for one in held if isinstance(one, Tensor)}
        moved = model.named_parameters() if parameters else ()
        self._parameters = [(name, one, one.data, one.detach().clone()) for name, one in moved]
        self._contents = {id(one): (one, held_in(one)) for one in held if base_of(one)}
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
        found |= {name + WRITTEN: one.detach().clone() for name, one in self.replaced()}
        changed = {_told(module, name, index): value for index, module, name, value in self._changed_tensors()}
        return found | {name: value.detach().clone() for name, value in changed.items()}

    def replaced(self) -> list[tuple[str, nn.Parameter]]:
        """The parameters that were put where another one was: `self.codes = nn.Parameter(...)` in `forward`."""
        return [
            (_told(module, name, index), one)
            for index, (module, parameters) in enumerate(self._places)
            for name, one in module._parameters.items()
            if one is not None and one is not parameters.get(name)
        ]

    def makes_parameters(self) -> bool:
        """Whether there are some under names that had none: `self.register_parameter(...)` in `forward`."""
        return any(
            one is not None and one.requires_grad and parameters.get(name) is None
            for module, parameters in self._places
            for name, one in module._parameters.items()
        )

    def _changed_tensors(self) -> Iterator[tuple[int, nn.Module, str, Tensor]]:
        for index, (module, attributes, buffers) in enumerate(self._of):
            values = {**{name: one for name, one in attributes.items() if vars(module).get(name) is one}}
            for name, value in (*values.items(), *module._buffers.items()):
                if isinstance(value, Tensor) and not self._is_as_before(value, attributes.get(name, buffers.get(name))):
                    yield index, module, name, value

    def counted(self) -> Counted | None:
        """What a pass that has set numbers has left; None where it has set none, or has left what is not told here."""
        moved = any(not _same(each[1], each[3]) for each in self._parameters)
        if moved or any(identities(one) != identities(before) for one, before in self._registered):
            return None
        written = tuple((index, name) for index, _, name, _ in self._changed_tensors())
        others = [
            (index, name, one)
            for index, (module, attributes, _) in enumerate(self._of)
            for name, one in _kept(vars(module)).items()
            if one is not attributes.get(name, _NOTHING) or self._is_filled(one)
        ]
        # A pass that only keeps tensors has nothing to decide by, and the last one's would be held for another pass.
        counts = any(isinstance(one, (int, float, dict)) for *_, one in others)
        return Counted(written, tuple((index, name) for index, name, _ in others)) if counts else None

    def _is_filled(self, value: Any) -> bool:
        """Whether it is a container that holds other things than it did."""
        held = self._contents.get(id(value))
        return held is not None and held[0] is value and identities(value) != identities(held[1])

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


@dataclass(frozen=True)
class Counted:
    """What a pass leaves in a model that counts its calls, say: attributes and buffers, by the place of their module
    and their names. `written`: tensors that stay, with other values; `others`: what is set to something else."""

    written: tuple[tuple[int, str], ...]
    others: tuple[tuple[int, str], ...]

    def is_all(self, model: nn.Module, numbers: Iterable[str]) -> bool:
        """Whether these, by their names in `Surroundings`, are among it: a container's items are, but not theirs."""
        named, top = [name for name, _ in model.named_modules()], type(model).__name__
        known = {f"{top}.{named[index]}".rstrip(".") + f".{name}" for index, name in (*self.written, *self.others)}
        return all(one.partition("[")[0] in known and one.count("[") < 2 for one in numbers)

    def now(self, model: nn.Module) -> Before:
        modules = list(model.modules())
        written = [_Place(_holder(modules[index], name), name, is_written=True) for index, name in self.written]
        return Before([*written, *(_Place(_holder(modules[index], name), name) for index, name in self.others)])


@dataclass(frozen=True)
class Before:
    """What `Counted` names, as it was."""

    places: list[_Place]

    @torch.no_grad()
    def put_back(self) -> None:
        for one in self.places:
            one.put_back()


class _Place:
    def __init__(self, holder: dict[str, Any], name: str, is_written: bool = False) -> None:
        self._holder, self._name, self._held = holder, name, holder.get(name, _NOTHING)
        self._values: Any = None
        if base_of(self._held):
            self._values = held_in(self._held)
        elif is_written and isinstance(self._held, Tensor):
            self._values = self._held.detach().clone()

    def put_back(self) -> None:
        if self._held is _NOTHING:
            self._holder.pop(self._name, None)
            return
        self._holder[self._name] = self._held
        if isinstance(self._values, Tensor):
            self._held.data.copy_(self._values)
        elif self._values is not None:
            refill(self._held, self._values)


def _holder(module: nn.Module, name: str) -> dict[str, Any]:
    return module._buffers if name in module._buffers else vars(module)


class Buffers:
    """Of a model: which of them a pass writes, and which parameters. What is written by way of `.data` is not seen."""

    def __init__(self, model: nn.Module) -> None:
        named = [(name, module) for name, module in model.named_modules()]
        held = [(name, each) for name, one in named for each in (one._buffers, one._parameters)]
        self._held: list[tuple[str, Mapping[str, Tensor | None]]] = [(name, each) for name, each in held if each]
        self._before = self._versions()

    def begin(self) -> None:
        self._before = self._versions()

    def written(self) -> list[str]:
        """Since it began, by name."""
        now = self._versions()
        if now == self._before:
            return []
        names = (f"{name}.{one}" for name, buffers in self._held for one in buffers)
        return [name for name, before, after in zip(names, self._before, now, strict=False) if before != after]

    def _versions(self) -> list[tuple[int, int]]:
        return [
            (id(one), 0 if one is None or one.is_inference() else one._version)
            for _, buffers in self._held
            for one in buffers.values()
        ]


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
    own = ("_modules", "_parameters")
    names = (name for name in _OF_TORCH if name in own or "_hooks" in name)  # and which of them take keywords
    return [attributes[name] for name in names if isinstance(attributes.get(name), dict)]


def _told(module: nn.Module, name: str, index: int) -> str:
    return f"{type(module).__name__}.{name} ({index})"


def _same(tensor: Tensor, before: Tensor) -> bool:
    same: bool = torch.equal(dense(tensor.detach()), dense(before))
    return same
