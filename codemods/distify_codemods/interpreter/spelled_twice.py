"""`try: from .sizes import area`, `except ImportError: from sizes import area`: a file of the project, spelled twice.

Which of them is right depends on how the file is started, as a part of its package or from its own folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import libcst as cst

from distify_codemods import libraries, tree
from distify_codemods.module import Module
from distify_codemods.program import Program

_Import = cst.Import | cst.ImportFrom


def level_of(program: Program, importer: Module, node: _Import, name: str) -> int:
    """How many dots are meant in front of a module: those that are written, or the other spelling's."""
    written = len(node.relative) if isinstance(node, cst.ImportFrom) else 0
    if (
        written
        or not name
        or program.local_module(importer, name.split(".")[0], 0) is not None
        or _is_there(program, name)
    ):
        return written
    for attempt in importer.enclosing(node):
        if isinstance(attempt, cst.Try):
            levels = [level for level, other in _relative(attempt) if other == name]
            if levels and program.local_module(importer, name, levels[0]) is not None:
                return levels[0]
    return written


def _is_there(program: Program, name: str) -> bool:
    """Whether a library has that name."""
    top, installed = name.split(".")[0], program.options.installed
    return top in sys.stdlib_module_names or libraries.knows(top) or (installed is not None and installed(top))


def _relative(attempt: cst.Try) -> Iterator[tuple[int, str]]:
    """The modules that an attempt and its handlers import by dots: how many, and what stands behind them."""
    for part in (attempt.body, *attempt.handlers):
        for node in tree.walk(part):
            if isinstance(node, cst.ImportFrom) and node.relative:
                source = (tree.dotted(node.module) or "") if node.module is not None else ""
                names = [] if isinstance(node.names, cst.ImportStar) else [tree.dotted(one.name) for one in node.names]
                for name in [source] if source else names:
                    yield len(node.relative), name or ""
