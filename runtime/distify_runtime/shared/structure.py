"""Arguments and outputs as flat lists of tensors: tuples, lists, dictionaries, dataclasses, packed sequences …"""

from __future__ import annotations

import copy
import dataclasses
import enum
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.nn.utils import rnn
from torch.nn.utils.rnn import PackedSequence


class Unknown(Exception):
    """Something that may hold tensors and is of no kind that can be taken apart. The message names it."""


#: What has nothing of a batch: it goes to every rank as it is.
_PLAIN = (
    int, float, complex, str, bytes, bool, type(None), type, enum.Enum, range, slice, torch.dtype, torch.device,
    torch.Size, torch.Generator, nn.Module, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
    types.EllipsisType,
)  # fmt: skip

Leaf = Tensor
Change = Callable[[Tensor], Any]


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in a value, in an order that follows from its structure. Raises Unknown."""
    found: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    mapped(value, keep)
    return found


def rebuilt(value: Any, tensors: Iterator[Any]) -> Any:
    """A copy with other tensors in the places of those that `tensors_in` gave."""
    return mapped(value, lambda _: next(tensors))


def mapped(value: Any, change: Change) -> Any:
    """A copy of a value, with each tensor changed. What holds no tensor stays the same object. Raises Unknown."""
    if isinstance(value, Tensor):
        if value.is_nested:
            raise Unknown("a nested tensor")
        return change(value)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, PackedSequence):
        return _packed(value, change)
    if isinstance(value, (tuple, list)):
        return _sequence(value, [mapped(one, change) for one in value])
    if isinstance(value, Mapping):
        return _mapping(value, {key: mapped(one, change) for key, one in value.items()})
    if isinstance(value, Distribution):
        return _distribution(value, change)
    if dataclasses.is_dataclass(value):
        return _with_fields(value, {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}, change)
    if _is_numbers(value) or not hasattr(value, "__dict__"):
        return value
    return _with_fields(value, vars(value), change)


def _sequence(value: Any, items: list[Any]) -> Any:
    if type(value) in (tuple, list):
        return type(value)(items)
    if hasattr(value, "_fields"):  # a named tuple
        return type(value)(*items)
    if isinstance(value, list):
        twin = copy.copy(value)
        twin[:] = items
        return twin
    return type(value)(items)


def _packed(value: PackedSequence, change: Change) -> Any:
    """By way of a padded tensor of shape (steps, samples, …) and the lengths."""
    padded, lengths = (change(one) for one in rnn.pad_packed_sequence(value))
    if not isinstance(padded, Tensor):
        return value  # only looked at
    return rnn.pack_padded_sequence(padded, lengths.cpu(), enforce_sorted=value.sorted_indices is None)


def _mapping(value: Any, items: dict[Any, Any]) -> Any:
    if type(value) in (dict, OrderedDict):
        return type(value)(items)
    if isinstance(value, defaultdict):
        return defaultdict(value.default_factory, items)
    twin = copy.copy(value)  # a ModelOutput, a BatchEncoding: with attributes beside its items
    for key, item in items.items():
        if item is not value[key]:
            twin[key] = item
    return twin


def _with_fields(value: Any, fields: Mapping[str, Any], change: Change) -> Any:
    """A shallow copy of an object whose attributes hold tensors. Raises Unknown where they do by way of others."""
    met: list[Tensor] = []

    def noted(tensor: Tensor) -> Any:
        met.append(tensor)
        return change(tensor)

    changed = {name: mapped(one, noted) for name, one in fields.items()}
    if not met:
        return value
    if not dataclasses.is_dataclass(value):
        raise Unknown(f"an object of class {type(value).__qualname__}")
    twin = copy.copy(value)
    for name, one in changed.items():
        object.__setattr__(twin, name, one)
    return twin


def _distribution(value: Distribution, change: Change) -> Any:
    """Made anew from its parameters: its shape follows from them."""
    if isinstance(value, torch.distributions.Independent):
        return type(value)(mapped(value.base_dist, change), value.reinterpreted_batch_ndims)
    names = [name for name in value.arg_constraints if name in vars(value)]
    if "logits" in names and "probs" in names:
        names.remove("probs")
    try:
        return type(value)(**{name: mapped(getattr(value, name), change) for name in names}, validate_args=False)
    except TypeError:
        raise Unknown(f"a distribution of class {type(value).__qualname__}") from None


def _is_numbers(value: Any) -> bool:
    """An array of NumPy's: without gradients, and whole on every rank unless the batch is found in it."""
    return type(value).__module__.split(".")[0] == "numpy"
