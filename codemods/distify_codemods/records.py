"""Data classes as those of the standard library, finished when they are first used.

Python compiles up to six methods of each data class where it is defined; of most of them a conversion makes no object.
That nothing sets a field of a frozen one is left to mypy: what it takes to refuse that makes each object dearer.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

_LOCK = RLock()
_unfinished: dict[type, dict[str, Any]] = {}  # what each class that has no methods yet is to be made with

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """`dataclasses.dataclass`, put off until an object of the class, or of one derived from it, is made."""
        if cls is None:
            return partial(dataclass, **options)
        _unfinished[cls] = options = {"init": "__init__" not in vars(cls)} | options
        if not options["init"]:
            return finished(cls)

        def first(self, *args, **named):
            finished(cls).__init__(self, *args, **named)

        cls.__init__ = first
        return cls


def finished(cls: type) -> type:
    """The class with its methods; those from which it derives get theirs first."""
    with _LOCK:
        for one in reversed(cls.__mro__):
            if one in _unfinished:
                options = _unfinished.pop(one)
                if options["init"]:
                    delattr(one, "__init__")
                one.__doc__ = one.__doc__ or one.__name__  # else a signature is made for it, which takes long
                hashed = options.pop("frozen", False) and options.get("eq", True)
                dataclasses.dataclass(**options, unsafe_hash=hashed)(one)
    return cls
