"""What a forward pass may set by name, beside its module: global variables, and attributes of objects, classes and
functions of the script's own.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from distify_runtime.shared.containers import KINDS
from distify_runtime.watch.frames import is_of_script

_NOTHING = object()
#: What a class has beside data: functions, and what looks attributes up.
_NO_DATA = (types.FunctionType, classmethod, staticmethod, property, functools.cached_property)


@dataclass(frozen=True)
class Names:
    """Some of a table. spelled: what they are attributes of, "" of nothing; None where whoever found it knows that."""

    table: Callable[[], Any]  # by name
    chosen: Callable[[Any], Iterable[str]]
    put: Callable[[str, Any], None]
    take: Callable[[str], None]
    spelled: str | None = None

    def now(self) -> dict[str, Any]:
        table = self.table()
        return {name: table[name] for name in self.chosen(table) if name in table}

    def become(self, before: dict[str, Any]) -> None:
        now = self.now()
        for name in now.keys() - before.keys():
            self.take(name)
        for name, value in before.items():
            if now.get(name, _NOTHING) is not value:
                self.put(name, value)


def names_of(value: Any) -> Iterator[Names]:
    """What may be set in it, or by it."""
    if isinstance(value, nn.Module):  # `State` puts its attributes back
        yield from _of_classes(type(value))
    elif isinstance(value, type):
        yield from _of_classes(value)
    elif isinstance(value, types.FunctionType):
        if not _is_a_library(value.__module__ or ""):
            yield _in(vars(value))
        if stored := _stored(value.__code__):
            table = value.__globals__
            yield Names(lambda: table, lambda _: stored, table.__setitem__, table.__delitem__, "")
    elif _is_of_the_script(value):
        kind: type = type(value)
        yield from _of_classes(kind)
        if type(own := _plainly(value, "__dict__")) is dict:
            yield _in(own)
        if slots := _slots(kind):
            yield _of_slots(value, slots)


def _in(table: dict[str, Any]) -> Names:
    return Names(lambda: table, list, table.__setitem__, table.__delitem__)


def _of_slots(value: Any, slots: frozenset[str]) -> Names:
    """Past what a class has for it: one may be frozen."""

    def table() -> dict[str, Any]:
        found = ((name, _plainly(value, name)) for name in slots)
        return {name: one for name, one in found if one is not _NOTHING}

    put, take = functools.partial(object.__setattr__, value), functools.partial(object.__delattr__, value)
    return Names(table, list, put, take)


def _plainly(value: Any, name: str) -> Any:
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return _NOTHING


def _of_classes(kind: type) -> Iterator[Names]:
    """The data of a class and of those it is derived from."""
    for base in kind.__mro__:
        if base is not object and not is_of_a_library(base):
            put, take = functools.partial(type.__setattr__, base), functools.partial(type.__delattr__, base)
            yield Names(functools.partial(vars, base), _data, put, take, f"class {base.__name__}")


def _data(table: Any) -> list[str]:
    return [name for name, one in table.items() if not name.startswith("__") and not _is_looked_up(one)]


def _is_looked_up(value: Any) -> bool:
    return isinstance(value, _NO_DATA) or hasattr(type(value), "__get__")


@functools.cache
def _stored(code: types.CodeType) -> frozenset[str]:
    """The global variables that a function sets."""
    return frozenset(one.argval for one in dis.get_instructions(code) if one.opname == "STORE_GLOBAL")


@functools.cache
def _slots(kind: type) -> frozenset[str]:
    return frozenset(name for base in kind.__mro__ for name in _slots_of(base)) - {"__dict__", "__weakref__"}


def _slots_of(base: type) -> Iterator[str]:
    """As they are looked up: `__total` of a class is `_Class__total`."""
    own = vars(base).get("__slots__", ())
    for name in [own] if isinstance(own, str) else own:
        private = name.startswith("__") and not name.endswith("__")
        yield f"_{base.__name__.lstrip('_')}{name}" if private else name


def _is_of_the_script(value: Any) -> bool:
    """Whether it is an object of a class of the script's own. Those of libraries may be other threads'."""
    plain = {object, types.SimpleNamespace, *KINDS}
    bases = (base for base in type(value).__mro__ if base not in plain)
    return not any(map(is_of_a_library, bases))


def is_of_a_library(kind: type) -> bool:
    return _is_a_library(kind.__module__)


@functools.cache
def _is_a_library(module: str) -> bool:
    top = module.partition(".")[0]
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    ours = top == "torch" or top == "distify_runtime" or (top in sys.stdlib_module_names and top != "__main__")
    return ours or (bool(file) and not is_of_script(file))
