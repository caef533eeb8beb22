"""One file of a program: its tree, its positions, its names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import PurePath
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from distify_codemods import directives, tree
from distify_codemods.control_flow import SCOPES, Scope
from distify_codemods.dataflow import Flow
from distify_codemods.directives import Directive
from distify_codemods.records import dataclass
from distify_codemods.results import Place, SourceFile
from distify_codemods.tree import Block, Statement


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
    def nodes(self) -> list[cst.CSTNode]:
        """All of its nodes that hold code, in the order of the source."""
        return list(tree.walk(self.tree))

    @cached_property
    def positions(self) -> dict[cst.CSTNode, CodeRange]:
        # MetadataWrapper.resolve would visit all nodes once more, for nothing.
        found: Mapping[cst.CSTNode, Any] = PositionProvider()._gen(MetadataWrapper(self.tree, unsafe_skip_copy=True))
        return dict(found)

    @cached_property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        return tree.parents_of(self.tree)

    @cached_property
    def bindings(self) -> dict[str, list[cst.CSTNode]]:
        """The places that bind a name, in order; the variable of a comprehension is seen nowhere else."""
        found: dict[str, list[cst.CSTNode]] = {}
        for node in self.nodes:
            for name in tree.bound_names(node):
                found.setdefault(name, []).append(node)
        return found

    def scope(self, node: cst.CSTNode) -> Scope:
        """The function, class or lambda around a node, or else the module's lines."""
        return next(one for one in (*self.enclosing(node), self.tree) if isinstance(one, SCOPES))

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Lambda | cst.Module:
        """The function or lambda around a node, or else the module's lines."""
        around = (*self.enclosing(node), self.tree)
        return next(one for one in around if isinstance(one, (cst.FunctionDef, cst.Lambda, cst.Module)))

    def lines_around(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
        """The function in whose lines a node stands, or else the module's lines."""
        around = (*self.enclosing(node), self.tree)
        return next(one for one in around if isinstance(one, (cst.FunctionDef, cst.Module)))

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
