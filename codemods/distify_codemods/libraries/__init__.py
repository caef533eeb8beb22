"""What is known of libraries, as data: each fact stands here once, and is asked wherever it matters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import chain
from pkgutil import iter_modules


def knows(library: str) -> bool:
    """Whether something of a library, by its top-level name, is in one of the tables."""
    return library in _named()


@cache
def _named() -> frozenset[str]:
    tables = (vars(import_module(f"{__name__}.{one.name}")) for one in iter_modules(__path__))
    registered = (name for api in import_module(f"{__name__}.registry").apis() for name in api.names.split())
    names = chain(registered, (name for table in tables for name in _names(table)))
    return frozenset(name.partition(".")[0] for name in names if "." in name)


def _names(table: dict[str, object]) -> Iterator[str]:
    for value in table.values():
        if isinstance(value, (tuple, frozenset, dict)):
            yield from (one for one in value if isinstance(one, str))
