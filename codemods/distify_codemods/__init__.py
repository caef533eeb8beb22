"""Source text in, new source text and the reasons out. Never touches a disk, a terminal, or torch."""

from distify_codemods.convert import convert
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
