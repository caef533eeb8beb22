"""Parts of a model that are made alike: what speaks against sharing one of them counts for the others of its kind.

So a model of many blocks, none of which can be shared, is not tried block by block, each in all the ways in which a
batch could lie in its arguments. Where that is wrong of a block, its own parts are shared in its place: results are
those of the whole batch all the same. That a part can be shared is never taken from another.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from torch import nn

from distify_runtime import communicator
from distify_runtime.shared.plans import Call

_Kind = tuple[Any, ...]
#: What a module itself is made of.
_OF_TORCH = frozenset(vars(nn.Module()))


class TooLarge(str):
    """Why a batch is not shared that there is no memory for: it says nothing of what is computed."""


class Kinds:
    """Of the parts that were tried, those that cannot be shared: why."""

    def __init__(self) -> None:
        self._found: dict[_Kind, str] = {}

    def learn(self, part: nn.Module, call: Call, why: str) -> None:
        """All ranks have found the same."""
        if _tells(call) and not isinstance(why, TooLarge):
            self._found.setdefault(_kind(part, call), why)

    def whole(self, part: nn.Module, call: Call) -> str | None:
        """Why a part of this kind cannot, where all ranks know of one: attributes may differ. A collective."""
        if not self._found or not _tells(call):
            return None
        found = self._found.get(_kind(part, call))
        return found if all(communicator.all_gather_object(found is not None)) else None

    def forget(self) -> None:
        self._found.clear()


def _tells(call: Call) -> bool:
    """Of too few samples there is nothing to share, whatever the kind."""
    return not call.is_small and not call.is_of_one


def _kind(part: nn.Module, call: Call) -> _Kind:
    """What a module and all of its parts are and are called, with what switches branches in them, and how it is called.

    No sizes or other numbers: blocks grow wider with the depth, and are numbered. Nor whether gradients flow to what it
    is given, which they do to all blocks but the first.
    """
    name, structure, _, *rest = call.form
    given = tuple((one.dim(), one.dtype) for one in call.tensors)
    return name, structure, given, *rest, tuple((name, type(one), _switches(one)) for name, one in part.named_modules())


def _switches(module: nn.Module) -> tuple[Any, ...]:
    named = ((name, one) for name, one in vars(module).items() if name not in _OF_TORCH)
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())  # one may keep what it sees
    return *((name, _said(one)) for name, one in sorted(named)), *map(_said, hooks)


def _said(value: Any) -> Any:
    if isinstance(value, bool | str | type(None)):
        return value
    if isinstance(value, FunctionType):
        return value.__module__, value.__qualname__
    return type(value)
