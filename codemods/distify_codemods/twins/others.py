"""Other scripts of the project, which go on importing a file that is changed in its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from functools import cached_property
from pathlib import PurePath

import libcst as cst

from distify_codemods import tree
from distify_codemods.backends.base import RUNTIME
from distify_codemods.program import Module, Program
from distify_codemods.results import SourceFile
from distify_codemods.twins.graph import Graph

_DEFINITIONS = (cst.FunctionDef, cst.ClassDef)


class Others:
    """Which of them runs what: told from their import statements, and from the names that they mention."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._graph = Graph(program)
        self._used: dict[tuple[str, Module], set[str] | None] = {}

    def user_of(self, module: Module, node: cst.CSTNode) -> str:
        """The path of another script that may run the code around a node; empty if there is none."""
        return next((path for path, reached in self._reached.items() if self._runs(path, reached, module, node)), "")

    @cached_property
    def _reached(self) -> dict[str, dict[Module, None]]:
        """The files of the program that each of the other scripts imports, also by way of other files."""
        own = {PurePath(path): module for path, module in self._program.modules.items()}
        files = own.keys() | {PurePath(file.path) for file in self._program.options.others}
        found: dict[str, dict[Module, None]] = {}
        for file in self._program.options.others:
            roots = [own[path] for path in _imported(file, self._program.entry.path, set(own), files) if path in own]
            if PurePath(file.path) not in own and roots:
                found[file.path] = dict.fromkeys(self._graph.closure(roots))
        return found

    def _runs(self, path: str, reached: dict[Module, None], module: Module, node: cst.CSTNode) -> bool:
        if module not in reached:
            return False
        around = [node, *module.enclosing(node)]
        if any(map(tree.is_main_test, around)):
            return False
        tops = [one for one in around if isinstance(one, _DEFINITIONS)]
        return not tops or tops[-1].name.value in self._names(path, reached, module)

    def _names(self, path: str, reached: dict[Module, None], module: Module) -> set[str]:
        """The functions and classes of a file that a script mentions, and what these mention."""
        if (known := self._used.get((path, module))) is not None:
            return known
        tops = {one.name.value: one for one in module.tree.body if isinstance(one, _DEFINITIONS)}
        texts = [file.data for file in self._program.options.others if file.path == path]
        texts += [one.file.data for one in reached if one is not module]
        queue = [name for name in tops if any(_mentions(text, name) for text in texts)]
        queue += [
            name for line in module.tree.body if not _is_definition(line) for name in tree.names(line) & tops.keys()
        ]
        found = set[str]()
        while queue:
            name = queue.pop()
            if name not in found:
                found.add(name)
                queue += tree.names(tops[name]) & tops.keys()
        self._used[path, module] = found
        return found


def _is_definition(line: cst.CSTNode) -> bool:
    """Also what runs in the script alone."""
    return isinstance(line, _DEFINITIONS) or tree.is_main_test(line)


def _mentions(text: bytes, name: str) -> bool:
    return re.search(rb"\b%s\b" % name.encode(), text) is not None


def _imported(file: SourceFile, entry: str, own: set[PurePath], files: Set[PurePath]) -> Iterator[PurePath]:
    """The paths that its imports may mean, wherever it is started from. Not of a script that is converted itself.

    What lies beside it as well is no file of another folder than those around it: that is no part of its project.
    """
    if RUNTIME.encode() in file.data or not any(_mentions(file.data, _stem(path)) for path in own):
        return
    try:
        parsed = ast.parse(file.data)
    except (SyntaxError, ValueError):
        return
    path = PurePath(file.path)
    around = [one for one in path.parents if ".." not in path.parts or ".." in one.parts]
    anywhere = list(dict.fromkeys([*around, *PurePath(entry).parents]))
    for node in ast.walk(parsed):
        if isinstance(node, ast.Import):
            names = [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            names = [(source, node.level), *((f"{source}.{alias.name}", node.level) for alias in node.names)]
        else:
            continue
        for name, level in names:
            parts = [part for part in name.split(".") if part]
            beside = parts and not files.isdisjoint(_of_module(path.parent, parts[:1]))
            absolute = around if beside else anywhere
            for folder in absolute if not level else path.parents[level - 1 : level]:
                yield from _of_module(folder, parts)


def _of_module(folder: PurePath, parts: list[str]) -> Iterator[PurePath]:
    """The files that a module may be."""
    yield folder.joinpath(*parts[:-1], f"{parts[-1]}.py") if parts else folder / "__init__.py"
    yield folder.joinpath(*parts, "__init__.py")


def _stem(path: PurePath) -> str:
    return path.parent.name or path.stem if path.name == "__init__.py" else path.stem
