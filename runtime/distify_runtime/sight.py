"""Who sees torch's process group.

Layers of libraries add up over the ranks by themselves wherever there is a group (counts of a codebook, centres of a
loss, what a metric keeps). With sharded data they are right to. Where every rank goes through whole batches, each
would count every sample once for every rank: there the script and its libraries see no group, as in one process, and
the runtime alone does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import torch.distributed.distributed_c10d as c10d

P = ParamSpec("P")
T = TypeVar("T")

#: Whether this thread is in what the runtime does with the group; the script's other threads are not.
_ours = ContextVar("distify_sees_the_group", default=False)

_world: Any = c10d._world  # untyped in torch: all of its functions look here for the default group
_World: Any = type(_world)


class _Hiding(_World):  # type: ignore[misc]
    """The groups of this process, of which the runtime's own is there for the runtime alone."""

    _of_the_script: Any = None  # a group that it makes by itself, it sees

    @property
    def default_pg(self) -> Any:
        return _World.default_pg.fget(self) if _ours.get() else self._of_the_script

    @default_pg.setter
    def default_pg(self, group: Any) -> None:
        if _ours.get():
            _World.default_pg.fset(self, group)
        else:
            self._of_the_script = group


def hide_group() -> None:
    """From now on nobody but the runtime sees the process group, whether it is there already or made later."""
    _world.__class__ = _Hiding


def is_hidden() -> bool:
    """Whether every rank goes through whole batches."""
    return isinstance(_world, _Hiding)


@contextmanager
def in_sight() -> Iterator[None]:
    token = _ours.set(True)
    try:
        yield
    finally:
        _ours.reset(token)


def seeing(function: Callable[P, T]) -> Callable[P, T]:
    """A function of the runtime's, which sees the group."""

    @functools.wraps(function)
    def sees(*args: P.args, **kwargs: P.kwargs) -> T:  # without `in_sight`: called many times in a step
        token = _ours.set(True)
        try:
            return function(*args, **kwargs)
        finally:
            _ours.reset(token)

    return sees


def seeing_all(kind: type[T]) -> type[T]:
    """A class whose methods all do."""
    for name, method in list(vars(kind).items()):
        if isinstance(method, property) and method.fget is not None:
            setattr(kind, name, property(seeing(method.fget)))
        elif callable(method) and not name.startswith("_"):
            setattr(kind, name, seeing(method))
    return kind
