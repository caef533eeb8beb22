"""Source text in, new source text and the reasons out. Never touches a disk, a terminal, or torch."""

from distify_codemods.convert import convert
from distify_codemods.results import (
    Change,
    Conversion,
    Finding,
    Level,
    NewFile,
    Options,
    Outcome,
    Place,
    Resolver,
    SourceError,
    SourceFile,
)

__all__ = [
    "Change",
    "Conversion",
    "Finding",
    "Level",
    "NewFile",
    "Options",
    "Outcome",
    "Place",
    "Resolver",
    "SourceError",
    "SourceFile",
    "convert",
]
