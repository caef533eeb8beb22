"""Figures that each rank keeps of its own samples, and that become those of all ranks where they are looked at."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, MutableMapping, MutableSequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor

from distify_runtime import accelerators, communicator
from distify_runtime.environment import is_alone, world_size
from distify_runtime.meeting import collective

_Put = Callable[[Any], None]
_NO_HOLDERS = (type, FunctionType, MethodType, BuiltinFunctionType, ModuleType, torch.nn.Module)


@collective
def average_figures(*holders: Any) -> None:
    """Put the mean over all ranks in the place of each number that these objects hold. A collective, one for all.

    holders: meters, lists, dictionaries. Numbers, tensors and arrays in their attributes and items, and in those of
    what they hold, are averaged in float64 and keep their type; a whole number does where the mean is whole. Texts,
    flags and None stay as they are. The ranks' objects hold the same things in the same order, but for the numbers.
    """
    if is_alone():
        return
    held = _Held()
    for holder in holders:
        held.look_into(holder)
    held.average()


class _Held:
    """The numbers that objects hold, each with what puts another one in its place."""

    def __init__(self) -> None:
        self.plain: list[tuple[Any, _Put]] = []
        self.many: list[tuple[Any, _Put]] = []  # tensors, arrays and numpy's numbers
        self.tuples: list[Callable[[], None]] = []  # put together anew, inner ones first
        self.seen: dict[int, Any] = {}

    def look_into(self, holder: Any) -> None:
        if id(holder) in self.seen:
            return
        self.seen[id(holder)] = holder
        for key, value in _items(holder):
            self._look_at(value, _setter(holder, key))

    def _look_at(self, value: Any, put: _Put) -> None:
        if isinstance(value, bool):
            return
        if isinstance(value, (int, float)) and type(value).__module__ == "builtins":
            self.plain.append((value, put))
        elif _is_array(value):
            self.many.append((value, put))
        elif isinstance(value, tuple):
            parts = list(value)
            for number, part in enumerate(value):
                self._look_at(part, _setter(parts, number))
            made = type(value)._make if hasattr(value, "_make") else type(value)
            self.tuples.append(lambda: put(made(parts)))
        elif _may_hold(value):
            self.look_into(value)

    def average(self) -> None:
        if not self.plain and not self.many:
            return
        devices = [value.device for value, _ in self.many if isinstance(value, Tensor) and accelerators.has(value)]
        home = devices[0] if devices else communicator.home()
        numbers = torch.tensor([value for value, _ in self.plain], dtype=torch.float64, device=home)
        parts = [numbers, *(_flat(value, home) for value, _ in self.many)]
        total = torch.cat(parts)
        communicator.all_reduce(total)
        means = torch.split(total / world_size(), [part.numel() for part in parts])
        for (value, put), mean in zip(self.plain, means[0].tolist() if self.plain else (), strict=True):
            put(round(mean) if isinstance(value, int) and mean == round(mean) else mean)
        for (value, put), part in zip(self.many, means[1:], strict=True):
            put(_like(value, part))
        for put_together in self.tuples:
            put_together()


def _items(holder: Any) -> list[tuple[Any, Any]]:
    if isinstance(holder, MutableMapping):
        return list(holder.items())
    if isinstance(holder, (MutableSequence, deque)):
        return list(enumerate(holder))
    slots = [name for cls in type(holder).__mro__ for name in _names(getattr(cls, "__slots__", ()))]
    found = {name: getattr(holder, name) for name in slots if not name.startswith("__") and hasattr(holder, name)}
    return [*found.items(), *getattr(holder, "__dict__", {}).items()]


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _setter(holder: Any, key: Any) -> _Put:
    def put(value: Any) -> None:
        if isinstance(holder, (MutableMapping, MutableSequence, deque)):
            holder[key] = value
        elif key in getattr(holder, "__dict__", ()):
            vars(holder)[key] = value
        else:
            setattr(holder, key, value)

    return put


def _may_hold(value: Any) -> bool:
    if isinstance(value, (MutableMapping, MutableSequence, deque)):
        return True
    return not isinstance(value, _NO_HOLDERS) and (hasattr(value, "__dict__") or hasattr(value, "__slots__"))


def _is_array(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.dtype is not torch.bool and not value.is_complex()
    numpy = sys.modules.get("numpy")
    known = numpy is not None and isinstance(value, (numpy.ndarray, numpy.number))
    return known and value.dtype.kind in "iuf"


def _flat(value: Any, home: torch.device) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach().to(home, torch.float64).reshape(-1)
    return torch.tensor(value.tolist(), dtype=torch.float64, device=home).reshape(-1)


def _like(value: Any, mean: Tensor) -> Any:
    """The mean in the type of `value`; whole numbers that have no whole mean become fractions."""
    if isinstance(value, Tensor):
        mean = mean.reshape(value.shape)
        if value.is_floating_point():
            return mean.to(value.device, value.dtype)
        whole = bool((mean == mean.round()).all())
        return mean.to(value.device, value.dtype if whole else torch.get_default_dtype())
    array = mean.reshape(value.shape).cpu().numpy()
    if value.dtype.kind == "f" or (array == array.round()).all():
        array = array.astype(value.dtype)
    return array if value.shape else array[()]
