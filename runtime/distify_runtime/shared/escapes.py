"""Tensors that a pass hands to something outside of the model: a trainer, a list, a closure that a hook writes to.

Nothing gathers them, so that each rank would go on with its own part as if it were the whole.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from distify_runtime.shared import comparing
from distify_runtime.shared.comparing import Left

#: What autocast computes in, whatever weights and results are.
_HALVES = (torch.float16, torch.bfloat16)
_weak: Any = StorageWeakRef  # untyped in torch


class Births(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers what is computed, as long as it lives. Of this thread alone: others may load batches meanwhile."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._born: dict[int, Any] = {}
        self.precision: torch.dtype | None = None  # the coarsest that anything was computed in, of those of half size

    def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        given = {storage_of(one) for one in _tensors((args, kwargs or {}))}
        for one in _tensors(found):
            if one.dtype in _HALVES and self.precision is not torch.bfloat16:
                self.precision = one.dtype
            if (storage := storage_of(one)) and storage not in given:
                self._born[storage] = _weak(one.untyped_storage())
        return found

    def without(self, leaves: dict[int, Tensor]) -> dict[int, Tensor]:
        """But for those that the pass has made by itself, as hooks make leaves of what frozen layers give."""
        return {identity: one for identity, one in leaves.items() if storage_of(one) not in self._born}

    def left(self, known: Iterable[Tensor], model: nn.Module) -> list[Left]:
        """In the order in which they were made; but for `known` and what only a graph holds. model: what was called."""
        alive = {storage for storage, one in self._born.items() if not one.expired()}
        alive -= {storage_of(one) for one in known}
        if not alive:
            return []
        tensors = (one for one in gc.get_objects() if type(one) is Tensor and one.layout is torch.strided)
        found = [one for one in tensors if storage_of(one) in alive]
        buffers = _buffers(model)
        if holders := _holders(found, buffers):
            del tensors  # which has all objects
            gc.collect()  # some may be holders that nobody holds
            holders = _holders(found, buffers)
        order = {storage: number for number, storage in enumerate(self._born)}
        held = sorted((one for one in found if id(one) in holders), key=lambda one: order[storage_of(one)])
        return [Left(holders[id(one)], one.detach().cpu()) for one in held]


def escaped(everyone: Sequence[Sequence[Left]], whole: Sequence[Left], precision: torch.dtype | None = None) -> str:
    """Why a pass cannot be shared that leaves these behind on each rank; empty: all ranks hold what one process would.

    whole: what the whole batch leaves. What is made once and kept (a mask, a table of positions) is not in it again.
    """
    longest = max(everyone, key=len)
    for index, one in enumerate(longest):
        others = [left[index] for left in everyone if index < len(left)]
        if len(whole) == len(longest):
            others.append(whole[index])
        alike = all(_is_same(one.tensor, other.tensor, precision) for other in others)
        if not alike or len(others) < len(everyone):
            return f"it leaves a part of the batch in {one.where}"
    return ""


def _is_same(one: Tensor, other: Tensor, precision: torch.dtype | None) -> bool:
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and comparing.is_equal(one, other, precision=precision)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.layout is torch.strided:
            yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)


def storage_of(tensor: Tensor) -> int:
    """Of tensors with memory of their own; others, sparse ones, those of `vmap` and undefined ones, are 0."""
    if tensor.layout is not torch.strided:
        return 0
    try:
        return int(tensor.untyped_storage()._cdata)
    except NotImplementedError:  # torch says so of those; Python's collector knows of all that anybody keeps
        return 0


# ---- who holds a tensor


def _buffers(model: nn.Module) -> dict[int, str]:
    """Those of a model and its parts by their identities, in words: they are looked at with all that is left."""
    top = type(model).__name__
    return {
        id(one): f"`{top}.{name}`, a buffer of the module" for name, one in model.named_buffers(remove_duplicate=False)
    }


def _holders(tensors: list[Tensor], buffers: dict[int, str]) -> dict[int, str]:
    """By the tensor's identity. Nobody: a graph, which no script reads. One search of all objects for all of them."""
    wanted = {id(one) for one in tensors}
    found = {identity: where for identity, where in buffers.items() if identity in wanted}
    known = gc.get_referrers(*tensors) if tensors else []
    holders = [one for one in known if one is not tensors and not isinstance(one, types.FrameType)]
    owners = _owners([one for one in holders if type(one) is dict])
    for holder in holders:
        owner = owners.get(id(holder), holder)
        if type(owner).__module__.startswith("distify_runtime"):
            continue
        for name, value in _entries(holder):
            if id(value) in wanted:
                found.setdefault(id(value), f"{_named(owner, name)}, outside of its modules")
    return found


def _owners(dictionaries: list[dict[Any, Any]]) -> dict[int, Any]:
    """By the dictionary's identity, the object whose attributes it is, or the module whose buffers; for some, none.

    Each search goes through all objects that there are, so that there is one for all of them.
    """
    wanted, found = {id(one) for one in dictionaries}, dict[int, Any]()
    inside: dict[int, tuple[int, dict[Any, Any]]] = {}  # attributes of modules, whose buffers are looked for
    for one in gc.get_referrers(*dictionaries) if dictionaries else []:
        if one is dictionaries or isinstance(one, types.FrameType):
            continue
        if type(one) is dict:
            if id(buffers := one.get("_buffers")) in wanted:
                inside[id(one)] = (id(buffers), one)
            continue
        if id(attributes := getattr(one, "__dict__", None)) in wanted:
            found[id(attributes)] = one
        if isinstance(one, nn.Module) and id(one._buffers) in wanted:
            found[id(one._buffers)] = one
    modules = _owners([one for _, one in inside.values()]) if inside else {}
    for identity, module in modules.items():
        if isinstance(module, nn.Module):
            found[inside[identity][0]] = module
    return found


def _entries(holder: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(holder, dict):
        yield from ((str(name), one) for name, one in holder.items())
    elif hasattr(holder, "__dict__"):
        yield from vars(holder).items()
    yield from (("", one) for one in gc.get_referents(holder))


def _named(owner: Any, name: str) -> str:
    if isinstance(owner, types.ModuleType):
        return f"the variable `{name}` of {owner.__name__}"
    if isinstance(owner, types.CellType):
        return "a variable of a closure"
    if name and not isinstance(owner, dict):
        return f"`{type(owner).__qualname__}.{name}`"
    return f"a {type(owner).__name__}" + (f", as {name!r}" if name else "")
