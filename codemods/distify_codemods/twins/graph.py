"""Who imports what: read from the import statements of each file, run or not, and resolved as Python would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import libcst as cst

from distify_codemods import tree
from distify_codemods.program import Module, Program
from distify_codemods.records import dataclass


@dataclass(frozen=True)
class Import:
    """One name of an import statement. `alias` is None for `from source import *`."""

    module: Module  # that has the statement
    node: cst.Import | cst.ImportFrom
    alias: cst.ImportAlias | None
    source: Module | None  # `import source`, `from source import name`; None: no local file
    level: int
    dotted: str  # the source's name as it is spelled, without leading dots

    @property
    def name(self) -> str:
        """What is taken from the source; empty where the module itself is."""
        named = self.alias is not None and isinstance(self.node, cst.ImportFrom)
        return tree.dotted(self.alias.name) or "" if named and self.alias else ""

    @property
    def source_name(self) -> str:
        """The source as it is spelled, leading dots and all."""
        return "." * self.level + self.dotted

    @property
    def bound(self) -> str:
        """The name that the file knows it by."""
        if self.alias is None:
            return ""
        if self.alias.asname is not None and isinstance(self.alias.asname.name, cst.Name):
            return self.alias.asname.name.value
        return (tree.dotted(self.alias.name) or "").split(".")[0]


#: What a module's name stands for: a name of the module that defines it; "" for that module itself.
Origin = tuple[Module, str]


@dataclass(eq=False)
class Graph:
    """The imports of the files that a program reaches. Each file is looked at once."""

    program: Program
    _imports: dict[Module, list[Import]] = field(default_factory=dict)
    _exports: dict[Module, dict[str, list[Origin]]] = field(default_factory=dict)
    _names: dict[Module, list[cst.Name]] = field(default_factory=dict)

    def imports(self, module: Module) -> list[Import]:
        if module not in self._imports:
            self._imports[module] = [
                one
                for node in module.nodes
                if isinstance(node, (cst.Import, cst.ImportFrom))
                for one in self._of_statement(module, node)
            ]
        return self._imports[module]

    def _of_statement(self, module: Module, node: cst.Import | cst.ImportFrom) -> Iterator[Import]:
        if isinstance(node, cst.Import):
            for alias in node.names:
                dotted = tree.dotted(alias.name) or ""
                yield Import(module, node, alias, self.program.local_module(module, dotted, 0), 0, dotted)
            return
        level, dotted = len(node.relative), tree.dotted(node.module) or "" if node.module else ""
        source = self.program.local_module(module, dotted, level)
        for name in [None] if isinstance(node.names, cst.ImportStar) else node.names:
            yield Import(module, node, name, source, level, dotted)

    def submodule(self, one: Import, name: str) -> Module | None:
        """`name` of the package that `one` imports from, where that is a file of its own."""
        return self.program.local_module(one.module, f"{one.dotted}.{name}" if one.dotted else name, one.level)

    def submodule_of(self, package: Module, name: str) -> Module | None:
        return self.program.local_module(package, name, 1) if package.is_package else None

    def origin(self, one: Import) -> list[Origin]:
        """What `from source import name` takes, and from where; empty for what is not local."""
        if one.source is not None:
            known = self.exports(one.source).get(one.name)
            if known:
                return known
        inner = self.submodule(one, one.name)
        if inner is not None:
            return [(inner, "")]
        return [] if one.source is None else [(one.source, one.name)]

    def exports(self, module: Module) -> dict[str, list[Origin]]:
        """The names that a module binds when it is imported, each with what it may stand for."""
        if module not in self._exports:
            self._exports[module] = {}  # for a module that imports itself in a circle
            table: dict[str, list[Origin]] = {}
            for statement in module.tree.body:
                for name, origins in self._bound_by(module, statement):
                    certain = isinstance(statement, (cst.SimpleStatementLine, cst.FunctionDef, cst.ClassDef))
                    table[name] = origins if certain else [*table.get(name, []), *origins]
            self._exports[module] = table
        return self._exports[module]

    def _bound_by(self, module: Module, statement: cst.CSTNode) -> Iterator[tuple[str, list[Origin]]]:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            yield statement.name.value, [(module, statement.name.value)]
            return
        for node in _outside_functions(statement):
            if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
                yield node.name.value, [(module, node.name.value)]
            elif isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.For, cst.NamedExpr, cst.AugAssign)):
                yield from ((name, [(module, name)]) for name in tree.target_names(node.target))
            elif isinstance(node, cst.AsName) and not isinstance(module.parents[node], cst.ImportAlias):
                yield from ((name, [(module, name)]) for name in tree.target_names(node.name))
            elif isinstance(node, (cst.Import, cst.ImportFrom)):
                for one in self.imports(module):
                    if one.node is node:
                        yield from self._bound_by_import(one)

    def _bound_by_import(self, one: Import) -> Iterator[tuple[str, list[Origin]]]:
        if one.alias is None:
            yield from self.star(one)
        elif isinstance(one.node, cst.ImportFrom):
            yield one.bound, self.origin(one) or [(one.module, one.bound)]
        elif one.source is not None and (one.alias.asname is not None or "." not in one.dotted):
            yield one.bound, [(one.source, "")]
        else:
            first = self.program.local_module(one.module, one.bound, 0)
            yield one.bound, [(first, "")] if first else [(one.module, one.bound)]

    def star(self, one: Import) -> Iterator[tuple[str, list[Origin]]]:
        """What `from source import *` brings along."""
        told = self._told_to_export(one.source) if one.source else None
        for name, origins in (self.exports(one.source) if one.source else {}).items():
            if name in told if told is not None else not name.startswith("_"):
                yield name, origins

    def _told_to_export(self, module: Module) -> set[str] | None:
        """The names of its `__all__`; None where it has none, or one that is not written down in one piece."""
        found: list[cst.BaseExpression] = []
        for node in module.nodes:
            if isinstance(node, cst.Name) and node.value == "__all__":
                target = module.parents[node]
                given = module.parents[target] if isinstance(target, cst.AssignTarget) else None
                if not isinstance(given, cst.Assign):
                    return None  # `__all__ += net.__all__`
                found.append(given.value)
        listed = found[0] if len(found) == 1 else None
        if not isinstance(listed, (cst.List, cst.Tuple)):
            return None
        texts = [tree.string(one.value) for one in listed.elements]
        return {one for one in texts if one is not None} if None not in texts else None

    def is_from_elsewhere(self, origin: Origin) -> bool:
        """Whether a file has a name from what is no file of the program: its twin has the same."""
        module, name = origin
        return any(one.bound == name and one.source is None for one in self.imports(module))

    def packages(self, one: Import) -> list[Module]:
        """The packages whose `__init__` runs before the source does."""
        parts = one.dotted.split(".") if one.dotted else []
        found = [self.program.local_module(one.module, ".".join(parts[:n]), one.level) for n in range(1, len(parts))]
        return [module for module in found if module is not None]

    def targets(self, one: Import) -> list[Module]:
        """Every file that the statement runs."""
        found = self.packages(one)
        if one.source is not None:
            found.append(one.source)
        known = self.exports(one.source).get(one.name, []) if one.source is not None else []
        if one.name and (not known or any(not name for _, name in known)):  # `from . import nets` binds `nets`, too
            inner = self.submodule(one, one.name)
            found += [inner] if inner is not None else []
        return found

    def closure(self, roots: list[Module], at_import: bool = False) -> list[Module]:
        """The files that the roots import, and so on, the roots first; with `at_import`, without functions' imports."""
        found, queue = dict.fromkeys(roots), list(roots)
        while queue:
            for one in self.imports(queue.pop(0)):
                if at_import and any(isinstance(node, cst.FunctionDef) for node in one.module.enclosing(one.node)):
                    continue
                for target in self.targets(one):
                    if target not in found:
                        found[target] = None
                        queue.append(target)
        return list(found)

    def names(self, module: Module) -> list[cst.Name]:
        """The names that a file mentions: no attributes, keywords, or parts of import statements."""
        if module not in self._names:
            self._names[module] = [
                node for node in module.nodes if isinstance(node, cst.Name) and _is_mention(module, node)
            ]
        return self._names[module]


def _is_mention(module: Module, node: cst.Name) -> bool:
    parent = module.parents[node]
    if isinstance(parent, cst.Attribute):
        if parent.attr is node:
            return False
        while isinstance(parent, cst.Attribute):
            parent = module.parents[parent]
    if isinstance(parent, cst.Arg) and parent.keyword is node:
        return False
    if isinstance(parent, cst.AsName):
        parent = module.parents[parent]
    return not isinstance(parent, (cst.ImportAlias, cst.ImportFrom))


def _outside_functions(statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes of a statement that run with it, in order."""
    stack = [statement]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            stack.extend(reversed(list(tree.children(node))))
