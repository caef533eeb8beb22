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
    from distify_codemods.conversion import convert

    globals()[name] = convert
    return convert
