"""What a pass may change outside of its modules: lists that a hook fills, an object that forward gives its numbers, a
tensor that is counted into, a generator of random numbers.

Looked for from the model: through attributes, closures of hooks, and the global variables that its methods name.
"""

from __future__ import annotations

import cmath
import functools
import types
from collections import UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import torch
from torch import Tensor, nn

from distify_runtime.shared.comparing import Left
from distify_runtime.shared.containers import as_array, base_of, entries_of, held_in, refill
from distify_runtime.shared.escapes import storage_of
from distify_runtime.shared.names import Names, is_of_a_library, names_of
from distify_runtime.shared.streams import position_of, rewinding

_MOST = 2000  # objects that are looked at
_MOST_ITEMS = 1000  # of a container: longer ones are data
_MOST_ENTRIES = 2**20  # of a tensor, by the same token
_DEEPEST = 2  # containers in containers
_OF_TORCH = frozenset(vars(nn.Module()))
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OURS = "distify_runtime"
_PLAIN = (str, bytes, Number, type(None), types.ModuleType, types.BuiltinFunctionType)
#: How far apart, as a share of their size, numbers may be that are computed in another order.
_ROUNDING = 1e-3


#: Of a module, by how they are written: the module's name, and the attribute's.
Sizes = dict[str, tuple[str, str]]


@dataclass
class _Held:
    """Something that holds others, by name, and as it was."""

    name: str
    holder: Any
    before: Any
    rewind: Callable[[], Any] | None = None  # of a generator of random numbers


class Surroundings:
    """What can be reached from a model, at one time.

    given: what it is called with, of which only generators of random numbers matter.
    """

    def __init__(self, model: nn.Module, given: Iterable[Any] = ()) -> None:
        self._held = list(_reached(model))
        self._held += [_of_generator("its arguments", one) for one in given if rewinding(one)]

    def drawn_from(self) -> list[Any]:
        """The script's own generators that have been drawn from since."""
        return [held.holder for held in self._held if held.rewind and position_of(held.holder) != held.before]

    def numbers(self) -> dict[str, Any]:
        """Those that are there now, by where they are, as a script would write it; of a tensor one, by all entries."""
        return {_joined(held, key): one for held in self._held for key, one in _numbers(_content(held.holder))}

    def filled_with(self, outputs: Sequence[Tensor]) -> list[Left]:
        """What the pass has put into containers and objects that were there, of what it also returns."""
        memory = {storage_of(one) for one in outputs} - {0}
        found: list[Left] = []
        for held in self._held:
            if held.rewind or isinstance(held.holder, nn.Module | types.CellType | Tensor):
                continue  # what a module has as an attribute is an output by another way
            if as_array(held.holder) is not None:
                continue
            before = {id(one) for _, one in _items(held.before)}
            new = ((key, one) for key, one in _items(_content(held.holder)) if id(one) not in before)
            for key, one in new:
                inner = one if isinstance(one, tuple) else [one]
                kept = (each for each in inner if isinstance(each, Tensor) and storage_of(each) in memory)
                found += [Left(f"`{_joined(held, key)}`", each.detach().cpu()) for each in kept]
        return found

    def numbers_of_modules(self) -> frozenset[str]:
        """Where those are that modules have as attributes, and in containers there: what `State` puts back."""
        modules = (held for held in self._held if isinstance(held.holder, nn.Module))
        return frozenset(_joined(held, key) for held in modules for key, _ in _numbers(_content(held.holder)))

    def put_back(self) -> None:
        """All of it as it was."""
        for held in self._held:
            if held.rewind:
                held.rewind()
            elif isinstance(held.holder, types.CellType):
                if _is_filled(held.holder):
                    held.holder.cell_contents = held.before
            elif isinstance(held.holder, Names):
                held.holder.become(held.before)
            elif base_of(held.holder):
                refill(held.holder, held.before)
            elif (array := as_array(held.holder)) is not None:
                if array.flags.writeable:
                    array[...] = held.before
            elif isinstance(held.holder, Tensor) and not torch.equal(held.holder, held.before):
                held.holder.copy_(held.before)  # where it is the same, a graph may still need it as it was


def _joined(held: _Held, key: str) -> str:
    """`history[0]`, `holder.total`: as a script writes it."""
    if not isinstance(held.holder, Names | nn.Module):
        return held.name + key
    attribute, _, rest = key[2:].partition("']")
    return f"{held.name}.{attribute}{rest}".removeprefix(".")


def differing(whole: dict[str, Any], everyone: Sequence[dict[str, Any]]) -> list[str]:
    """Where a pass leaves other numbers on some rank than the whole batch does."""
    names = whole.keys() | {name for one in everyone for name in one}
    return sorted(name for name in names if not all(_is_equal(one.get(name), whole.get(name)) for one in everyone))


def changed(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The numbers that are others, or new."""
    return {name: one for name, one in now.items() if name not in before or before[name] != one}


def _is_equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return one == other or one != one or cmath.isclose(one, other, rel_tol=_ROUNDING)


def _numbers(content: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The numbers in a container, also in what has been put into it in one piece: `history.append((step, loss))`."""
    if isinstance(content, Number):
        yield "", content
    elif isinstance(content, Tensor) and not depth and _may_be_written(content):
        yield "", _by_all_entries(content)
    elif (array := as_array(content)) is not None:
        if _may_be_noted(array):
            yield "", _by_all_entries(entries_of(array))
    elif depth <= _DEEPEST and (isinstance(content, tuple) or base_of(content) not in (None, set)):
        held = content if isinstance(content, tuple) else held_in(content)
        for name, one in held.items() if isinstance(held, dict) else enumerate(held):
            yield from ((f"[{name!r}]{rest}", number) for rest, number in _numbers(one, depth + 1))


def _by_all_entries(tensor: Tensor) -> float:
    """A number that another one in any place makes another."""
    entries = tensor.flatten().abs().double().nan_to_num()
    return float(entries @ torch.linspace(1, 2, len(entries), dtype=entries.dtype, device=entries.device))


def sizes(model: nn.Module, whole: dict[str, Any], everyone: Sequence[dict[str, Any]], counts: Sequence[int]) -> Sizes:
    """Attributes of modules with a number of samples, or of what each sample has several of."""
    found: Sizes = {}
    for name, module in model.named_modules():
        for attribute in _content(module):
            key = f"{type(model).__name__}.{name}".rstrip(".") + f".{attribute}"
            numbers = [whole.get(key), *(one.get(key) for one in everyone)]
            per_sample = {_per_sample(one, count) for one, count in zip(numbers, (sum(counts), *counts), strict=True)}
            if len(per_sample) == 1 and None not in per_sample:
                found[key] = (name, attribute)
    return found


def _per_sample(number: Any, samples: int) -> int | None:
    return number // samples if type(number) is int and samples and number % samples == 0 else None


def _items(content: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict):
        named: Iterable[tuple[Any, Any]] = dict.items(content)  # some classes load what they hold when they are asked
    else:
        named = enumerate(content or ())
    return ((f"[{name!r}]", one) for name, one in named)


# ---- what is reached


def _reached(model: nn.Module) -> Iterator[_Held]:
    top = type(model).__name__
    left = deque((f"{top}.{name}".rstrip("."), module) for name, module in model.named_modules())
    met: dict[int, Any] = {}  # which keeps them: identities of what is gone are given out again
    own = {storage_of(one) for one in (*model.parameters(), *model.buffers())}
    while left and len(met) < _MOST:
        name, value = left.popleft()
        if id(value) in met or isinstance(value, _PLAIN):
            continue
        met[id(value)] = value
        yield from (_Held(name if one.spelled is None else one.spelled, one, one.now()) for one in names_of(value))
        if isinstance(value, Tensor):
            if _may_be_written(value) and storage_of(value) not in own:
                yield _Held(name, value, value.clone())
            continue
        if base_of(value) and len(value) > _MOST_ITEMS:
            continue
        if rewinding(value):
            yield _of_generator(name, value)
        else:
            yield from _held(name, value)
        left.extend((name + step, one) for step, one in _within(value))


def _of_generator(name: str, value: Any) -> _Held:
    return _Held(name, value, position_of(value), rewinding(value))


def _held(name: str, value: Any) -> Iterator[_Held]:
    """What is to be kept of it."""
    if base_of(value):
        yield _Held(name, value, held_in(value))
    elif (array := as_array(value)) is not None and _may_be_noted(array):
        yield _Held(name, array, array.copy())
    elif isinstance(value, types.CellType | nn.Module):
        yield _Held(name, value, _content(value))


def _may_be_noted(array: Any) -> bool:
    return bool(0 < array.size <= _MOST_ENTRIES)


def _may_be_written(tensor: Tensor) -> bool:
    """Whether a pass may write into it, by a hook, and nobody else keeps it as it was."""
    plain = type(tensor) is Tensor and tensor.layout is torch.strided and not tensor.is_meta
    return plain and not tensor.requires_grad and not tensor.is_inference() and 0 < tensor.numel() <= _MOST_ENTRIES


def _content(value: Any) -> Any:
    if isinstance(value, types.CellType):
        return value.cell_contents if _is_filled(value) else None
    if base_of(value) or isinstance(value, Tensor) or as_array(value) is not None:
        return value
    if isinstance(value, Names):
        return value.now()
    if isinstance(value, nn.Module):
        return {name: one for name, one in vars(value).items() if name not in _OF_TORCH}
    return getattr(value, "__dict__", None)  # which generators of random numbers have none of


def _within(value: Any) -> Iterator[tuple[str, Any]]:
    """What something leads to, and how that is written."""
    if isinstance(value, nn.Module):
        yield from ((f".{name}", one) for name, one in _content(value).items())
        yield from (("", hook) for kind in _HOOKS for hook in vars(value)[kind].values())
        yield from (("", method) for method in _own_methods(type(value)))
    elif isinstance(value, types.FunctionType):
        if (value.__module__ or "").startswith(_OURS):
            return  # `print`, of which rank 0's is shown
        code = value.__code__
        yield from ((f".{name}", one) for name, one in zip(code.co_freevars, value.__closure__ or (), strict=True))
        yield from ((f".{one}", value.__globals__[one]) for one in code.co_names if one in value.__globals__)
    elif isinstance(value, types.MethodType):
        yield from (("", value.__self__), ("", value.__func__))
    elif isinstance(value, functools.partial):
        yield from (("", one) for one in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, types.CellType):
        yield "", _content(value)
    elif isinstance(value, tuple) or base_of(value):
        yield from _items(value if isinstance(value, tuple) else held_in(value))
    if isinstance(value, UserDict | UserList):
        yield ".data", value.data
    for names in names_of(value):
        yield from ((f".{name}", one) for name, one in names.now().items())


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _own_methods(kind: type) -> Iterator[Callable[..., Any]]:
    for base in kind.__mro__:
        if not is_of_a_library(base):
            yield from (one for one in vars(base).values() if isinstance(one, types.FunctionType))
