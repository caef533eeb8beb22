"""Arguments and outputs as flat lists of tensors: tuples, lists, dictionaries, objects, packed sequences …"""

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

#: What is said of a value by itself, and may be another thing for a part of a batch.
NUMBERS = (int, float, complex)
_NO_FIELDS = frozenset({"__dict__", "__weakref__"})
_DEEPEST = 3  # containers in containers


class Unknown(Exception):
    """Something that may hold tensors and is of no kind that can be taken apart. The message names it."""


#: What has nothing of a batch: it goes to every rank as it is.
_PLAIN = (
    int, float, complex, str, bytes, bool, type(None), type, enum.Enum, range, slice, torch.dtype, torch.device,
    torch.Size, torch.Generator, nn.Module, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
    types.EllipsisType,
)  # fmt: skip

Change = Callable[[Tensor], Any]
Way = tuple[int, ...]  # the objects that lead to a value


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


def object_in(value: Any) -> str:
    """What class the outermost object is of that holds tensors, and is no container; empty: there is none.

    Arguments are not taken apart through such objects: whoever gave one may go by what the call makes of it.
    """
    met: list[str] = []
    _mapped(value, lambda tensor: tensor, (), met)
    return met[-1] if met else ""


def told(value: Any) -> Any:
    """All of a value but its tensors: what is the same for each part of a batch, if parts make up the whole."""
    if isinstance(value, (Tensor, PackedSequence, Distribution)):
        return Tensor
    if isinstance(value, (*NUMBERS, str, bytes, range, slice, torch.dtype, torch.Size)):
        return type(value).__qualname__, repr(value)
    if isinstance(value, (tuple, list)):
        return type(value).__qualname__, [told(one) for one in value]
    if isinstance(value, Mapping):
        return type(value).__qualname__, [(repr(key), told(one)) for key, one in value.items()]
    if isinstance(value, _PLAIN) or not tensors_in(value):
        return type(value).__qualname__
    return type(value).__qualname__, [(name, told(one)) for name, one in _fields(value).items()]


def has_numbers(value: Any) -> bool:
    """Whether there are any in what `told` has said, but for truths."""
    if isinstance(value, (tuple, list)):
        return value[:1] in (("int",), ("float",), ("complex",)) or any(map(has_numbers, value))
    return False


def mapped(value: Any, change: Change) -> Any:
    """A copy of a value, with each tensor changed. What holds no tensor stays the same object. Raises Unknown."""
    return _mapped(value, change, (), [])


def _mapped(value: Any, change: Change, way: Way, met: list[str]) -> Any:
    """met: takes the classes of objects that hold tensors, the outermost last."""
    if isinstance(value, Tensor):
        if value.is_nested:
            raise Unknown("a nested tensor")
        return change(value)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, PackedSequence):
        return _packed(value, change)
    if isinstance(value, (tuple, list)):
        return _sequence(value, [_mapped(one, change, way, met) for one in value])
    if isinstance(value, Mapping):
        return _mapping(value, {key: _mapped(one, change, way, met) for key, one in value.items()})
    if isinstance(value, Distribution):
        return _distribution(value, change)
    if _is_numbers(value) or id(value) in way:
        return value  # an object that leads back to itself is told by whether the rest of it holds tensors
    return _with_fields(value, change, way, met)


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
    changed = {key: item for key, item in items.items() if item is not value[key] and tensors_in(value[key])}
    if not changed:
        return value  # perhaps a view of something, which cannot be written
    try:
        twin = copy.copy(value)  # a ModelOutput, a BatchEncoding: with attributes beside its items
        for key, item in changed.items():
            twin[key] = item
    except Exception:  # whatever its own way to be copied or written says
        raise Unknown(f"a mapping of class {type(value).__qualname__}") from None
    return twin


def _with_fields(value: Any, change: Change, way: Way, met: list[str]) -> Any:
    """A shallow copy of an object whose attributes hold tensors, of whatever class. Raises Unknown."""
    changed: list[Tensor] = []

    def noted(tensor: Tensor) -> Any:
        changed.append(tensor)
        return change(tensor)

    here = (*way, id(value))
    fields = {name: _mapped(one, noted, here, met) for name, one in _fields(value).items()}
    if not changed:
        return value
    kind = type(value)
    if not dataclasses.is_dataclass(value):
        met.append(f"an object of class {kind.__qualname__}")
        if any(_leads_to(one, here) for one in fields.values()):
            raise Unknown(f"an object of class {kind.__qualname__}, which leads back to itself")
    try:
        twin = copy.copy(value)
    except Exception:  # whatever its own way to be copied says
        raise Unknown(f"an object of class {kind.__qualname__}") from None
    if type(twin) is not kind or twin is value:
        raise Unknown(f"an object of class {kind.__qualname__}")
    for name, one in fields.items():
        if name in getattr(twin, "__dict__", ()):
            vars(twin)[name] = one
        else:
            object.__setattr__(twin, name, one)
    return twin


def _fields(value: Any) -> dict[str, Any]:
    """The attributes that an object has of its own, also those in slots."""
    slots = (name for base in type(value).__mro__ for name in _names(vars(base).get("__slots__", ())))
    inside = {name: getattr(value, name) for name in slots if name not in _NO_FIELDS and hasattr(value, name)}
    return inside | getattr(value, "__dict__", {})


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _leads_to(value: Any, way: Way, depth: int = 0) -> bool:
    """Whether one of these objects is a value, or in a container there."""
    if id(value) in way:
        return True
    inner = list(value.values()) if type(value) is dict else value if type(value) in (list, tuple) else ()
    return depth < _DEEPEST and any(_leads_to(one, way, depth + 1) for one in inner)


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
