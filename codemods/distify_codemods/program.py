"""The unit of a conversion: the entry script and the local modules that it reaches."""

from __future__ import annotations

import os.path
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from distify_codemods import directives, source, tree
from distify_codemods.control_flow import SCOPES, Scope
from distify_codemods.dataflow import Flow
from distify_codemods.directives import Directive
from distify_codemods.results import Options, Place, Resolver, SourceError, SourceFile
from distify_codemods.tree import Block, Statement

if TYPE_CHECKING:
    from distify_codemods.facts import Facts
    from distify_codemods.interpreter import Trial


@dataclass(eq=False)
class Module:
    """One parsed file."""

    file: SourceFile
    name: str  # "__main__" for the entry
    tree: cst.Module
    _flows: dict[Scope, Flow] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def is_package(self) -> bool:
        return PurePath(self.path).name == "__init__.py"

    @cached_property
    def positions(self) -> dict[cst.CSTNode, CodeRange]:
        found = MetadataWrapper(self.tree, unsafe_skip_copy=True).resolve(PositionProvider)
        return dict(found)

    @cached_property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        return tree.parents_of(self.tree)

    @cached_property
    def bindings(self) -> dict[str, list[cst.CSTNode]]:
        """The places that bind a name, in order; the variable of a comprehension is seen nowhere else."""
        found: dict[str, list[cst.CSTNode]] = {}
        for node in tree.walk(self.tree):
            for name in tree.bound_names(node):
                found.setdefault(name, []).append(node)
        return found

    def scope(self, node: cst.CSTNode) -> Scope:
        """The function, class or lambda around a node, or else the module's lines."""
        return next(one for one in (*self.enclosing(node), self.tree) if isinstance(one, SCOPES))

    def flow(self, node: cst.CSTNode) -> Flow:
        """Of the scope around a node."""
        scope = self.scope(node)
        if scope not in self._flows:
            self._flows[scope] = Flow(scope)
        return self._flows[scope]

    @cached_property
    def directives(self) -> tuple[Directive, ...]:
        """The `# distify:` comments of the file. Raises SourceError for one that says nothing known."""
        return directives.read(self.path, self.tree, self.file.data, lambda: self.positions)

    @cached_property
    def _skipped(self) -> frozenset[cst.CSTNode]:
        return frozenset(one.about for one in self.directives if one.word == directives.SKIP)

    def skipped(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The outermost statement around `node` that a comment leaves alone; the tree itself, if the whole file."""
        if not self._skipped:
            return None
        around = [one for one in (node, *self.enclosing(node)) if one in self._skipped]
        return around[-1] if around else None

    def place(self, node: cst.CSTNode) -> Place:
        start = self.positions[node].start
        return Place(self.path, start.line, start.column + 1)

    def statement(self, node: cst.CSTNode) -> Statement:
        """The statement of a block that holds `node`: the innermost one."""
        while not isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            parent = self.parents[node]
            if isinstance(parent, cst.SimpleStatementSuite):
                return self.statement(self.parents[parent])
            node = parent
        return node

    def block(self, statement: cst.CSTNode) -> Block:
        """The block that a statement stands in. A decorated or nested part belongs to its statement."""
        parent = self.parents[statement]
        while not isinstance(parent, (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite)):
            parent = self.parents[parent]
        return parent

    def enclosing(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The nodes around `node`, innermost first."""
        found = []
        while node in self.parents:
            node = self.parents[node]
            found.append(node)
        return found


@dataclass(eq=False)
class Program:
    """The entry and, parsed on demand, what it imports from beside itself."""

    entry: Module
    resolver: Resolver
    options: Options = field(default_factory=Options)
    modules: dict[str, Module] = field(default_factory=dict)  # by path
    unreadable: list[SourceError] = field(default_factory=list)  # local modules that do not parse
    #: Folders that the program has put into `sys.path`; None stands for what was there before.
    search_path: list[str | None] = field(default_factory=lambda: [None])
    on_run: Callable[[int], None] | None = None  # told each time it is followed how often that will be, about
    statements: int = 0  # that all runs have followed
    followed: dict[Trial, Facts] = field(default_factory=dict)  # what each run has told

    def local_module(self, importer: Module, name: str, level: int) -> Module | None:
        """The local module of that name as `importer` sees it; None for libraries and unreadable files."""
        file = self._file(importer, name, level)
        if file is None:
            return None
        known = self.modules.get(file.path)
        if known is not None:
            return known
        try:
            module = Module(file, name, source.parse(file))
        except SourceError as problem:
            if all(problem.path != other.path for other in self.unreadable):
                self.unreadable.append(problem)
            return None
        self.modules[file.path] = module
        return module

    def has_file(self, importer: Module, name: str, level: int) -> bool:
        """Whether there is a local file of that name, readable or not."""
        return self._file(importer, name, level) is not None

    def _file(self, importer: Module, name: str, level: int) -> SourceFile | None:
        if level or len(self.search_path) == 1:
            return self.resolver(importer.path, name, level)
        for folder in self.search_path:
            # A folder is looked through as for a relative import of a file in it.
            place = (importer.path, name, 0) if folder is None else (os.path.join(folder, "_"), name, 1)
            if (file := self.resolver(*place)) is not None:
                return file
        return None


def load(file: SourceFile, resolver: Resolver, options: Options | None = None) -> Program:
    """Raises SourceError when the entry is not Python 3 source."""
    entry = Module(file, "__main__", source.parse(file))
    return Program(entry, resolver, options or Options(), {file.path: entry})
