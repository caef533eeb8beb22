"""Source text in, new source text and the reasons out. Never touches a disk, a terminal, or torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distify_codemods.results import (
    Belief,
    Change,
    Conversion,
    Finding,
    Level,
    NewFile,
    OptionError,
    Options,
    Outcome,
    Place,
    Reason,
    Resolver,
    Said,
    SourceError,
    SourceFile,
    Strategy,
)
from distify_codemods.room import with_room

if TYPE_CHECKING:
    from distify_codemods.conversion import convert

__all__ = [
    "Belief",
    "Change",
    "Conversion",
    "Finding",
    "Level",
    "NewFile",
    "OptionError",
    "Options",
    "Outcome",
    "Place",
    "Reason",
    "Resolver",
    "Said",
    "SourceError",
    "SourceFile",
    "Strategy",
    "convert",
]


def __getattr__(name: str) -> object:
    """`convert`: the engine, and libcst with it, are imported when they are needed; options and help need neither."""
    if name != "convert":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, _engine())


@with_room  # classes by the thousand, of which none goes
def _engine() -> object:
    from distify_codemods.conversion import convert

    return convert
