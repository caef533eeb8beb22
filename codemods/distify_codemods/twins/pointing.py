"""The imports of one file, pointed at the twins of what they import."""

from __future__ import annotations

from dataclasses import field
from pathlib import PurePath

import libcst as cst

from distify_codemods.allocation import Ref
from distify_codemods.interpreter import Run
from distify_codemods.libraries import python
from distify_codemods.objects import Local
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.twins.graph import Graph, Import, Origin
from distify_codemods.twins.statements import (
    alias_of,
    dotted_name,
    parts_below,
    source_text,
    with_source,
)

Small = cst.Import | cst.ImportFrom


@dataclass(frozen=True)
class Problem:
    """An import that cannot be pointed at a twin. `lasts`: nor can the twin take its original's name."""

    module: Module
    node: cst.CSTNode
    why: str
    lasts: bool = False


@dataclass
class Pointing:
    """What becomes of a file's imports: statements in place of a statement, and names of modules in its code."""

    statements: dict[Small, list[Small]] = field(default_factory=dict)
    renamed: dict[cst.Attribute, str] = field(default_factory=dict)  # `a.b` of `a.b.f`, and the twin's last name
    problems: list[Problem] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.statements or self.renamed or self.problems)


@dataclass(frozen=True)
class Pointer:
    """Points imports at the twins of `twins`, a table from file to the last part of its twin's module name."""

    graph: Graph
    run: Run
    twins: dict[Module, str]

    def point(self, module: Module) -> Pointing:
        pointing = Pointing()
        by_statement: dict[Small, list[Import]] = {}
        for one in self.graph.imports(module):
            by_statement.setdefault(one.node, []).append(one)
        for node, ones in by_statement.items():
            if isinstance(node, cst.Import):
                self._import(pointing, node, ones)
            elif ones[0].alias is None:
                self._star(pointing, node, ones[0])
            else:
                self._import_from(pointing, node, ones)
        self._modules_at_work(pointing, module, [one for ones in by_statement.values() for one in ones])
        return pointing

    # ---- statements

    def _import(self, pointing: Pointing, node: cst.Import, ones: list[Import]) -> None:
        names = list(node.names)
        for number, one in enumerate(ones):
            if one.source not in self.twins or one.alias is None:
                continue
            twin = self._twin_name(one.dotted, one.source)
            asname = one.alias.asname
            if asname is None and "." not in one.dotted:
                asname = cst.AsName(cst.Name(one.dotted))
            names[number] = names[number].with_changes(name=dotted_name(twin), asname=asname)
        if any(old is not new for old, new in zip(node.names, names, strict=True)):
            pointing.statements[node] = [node.with_changes(names=names)]

    def _import_from(self, pointing: Pointing, node: cst.ImportFrom, ones: list[Import]) -> None:
        """Names whose source has a twin go there; where names of one statement part, it becomes several."""
        kept: list[cst.ImportAlias] = []
        groups: dict[str, list[cst.ImportAlias]] = {}
        for one in ones:
            assert one.alias is not None
            origins = self.graph.origin(one)
            concerned = [origin for origin in origins if origin[0] in self.twins]
            is_own = one.source is one.module  # a package's files by its own name: what it binds is what they are
            if one.source in self.twins and not is_own and one.name in self.graph.exports(one.source):
                groups.setdefault(self._twin_name(one.source_name, one.source), []).append(one.alias)
            elif not concerned:
                kept.append(one.alias)
            elif len(set(origins)) > 1:
                why = f"`{one.name}` may come from more than one file"
                pointing.problems.append(Problem(one.module, node, why))
            else:
                source, alias = self._direct(one, concerned[0])
                if source is None:
                    why = f"`{one.name}` is defined in {concerned[0][0].path}, which cannot be imported from here"
                    pointing.problems.append(Problem(one.module, node, why))
                else:
                    groups.setdefault(source, []).append(alias)
        if not groups:
            return
        parts = [with_source(node, source_text(node), kept, node)] if kept else []
        parts += [with_source(node, source, aliases, node if not kept and len(groups) == 1 else None)
                  for source, aliases in groups.items()]  # fmt: skip
        pointing.statements[node] = list(parts)

    def _direct(self, one: Import, origin: Origin) -> tuple[str | None, cst.ImportAlias]:
        """The twin of the file that defines a name, spelled as this file can import it; and what to take from it."""
        assert one.alias is not None
        target, name = origin
        if name:
            source = self._spelling(one, target)
            return source and self._twin_name(source, target), alias_of(name, one.bound)
        if target is self.graph.submodule(one, one.name):
            return one.source_name, alias_of(self.twins[target], one.bound)
        source = self._spelling(one, target)
        if source is None:
            return None, one.alias
        parent, dot, _ = source.rpartition(".")
        return (parent + dot if not parent.strip(".") else parent), alias_of(self.twins[target], one.bound)

    def _star(self, pointing: Pointing, node: cst.ImportFrom, one: Import) -> None:
        if one.source is None:
            return
        if one.source in self.twins:
            pointing.statements[node] = [with_source(node, self._twin_name(one.source_name, one.source), None, node)]
            return
        used = {name.value for name in self.graph.names(one.module)}
        by_text = not used.isdisjoint(python.BY_TEXT)
        groups: dict[str, list[cst.ImportAlias]] = {}
        for name, origins in self.graph.star(one):
            concerned = any(each[0] in self.twins and not self.graph.is_from_elsewhere(each) for each in origins)
            if not (by_text or name in used) or not concerned:
                continue
            target, inner = origins[0]
            source = self._spelling(one, target) if len(set(origins)) == 1 and inner else None
            if source is None:
                why = f"`{name}` comes through `import *` from more than one file"
                pointing.problems.append(Problem(one.module, node, why))
            else:
                groups.setdefault(self._twin_name(source, target), []).append(alias_of(inner, name))
        if groups:
            added = [with_source(node, source, aliases, None) for source, aliases in groups.items()]
            pointing.statements[node] = [node, *added]

    # ---- modules that are used as objects

    def _modules_at_work(self, pointing: Pointing, module: Module, ones: list[Import]) -> None:
        """`pkg.Thing`, `a.b.f`, `getattr(pkg, name)`: what is reached through a module that is no twin."""
        held = self._held(ones)
        explicit = {
            one.dotted: one.source
            for one in ones
            if isinstance(one.node, cst.Import) and one.alias and one.alias.asname is None and one.source is not None
        }
        for name in self.graph.names(module) if held else []:
            known = self.run.values.get(name)
            shadowed = known is not None and not any(isinstance(obj, (Local, Ref)) for obj in known.objs)
            if name.value in held and not shadowed:
                self._chain(pointing, module, name, held[name.value], explicit)

    def _held(self, ones: list[Import]) -> dict[str, Module | None]:
        """Names of this file that stand for a module; None for a folder without `__init__`."""
        held: dict[str, Module | None] = {}
        for one in ones:
            if isinstance(one.node, cst.Import) and one.source is not None and one.alias is not None:
                whole = one.alias.asname is not None or "." not in one.dotted
                held[one.bound] = one.source if whole else self.graph.program.local_module(one.module, one.bound, 0)
            elif one.name:
                origins = self.graph.origin(one)
                if len(origins) == 1 and not origins[0][1]:
                    held[one.bound] = origins[0][0]
        return held

    def _chain(
        self, pointing: Pointing, module: Module, name: cst.Name, start: Module | None, explicit: dict[str, Module]
    ) -> None:
        """Follows `a.b.c` from the module that `a` is to the file that it ends in."""
        node: cst.CSTNode = name
        dotted, current = name.value, start
        while True:
            parent = module.parents[node]
            if not (isinstance(parent, cst.Attribute) and parent.value is node):
                self._handed_on(pointing, module, name, dotted, current)
                return
            node, attribute = parent, parent.attr.value
            dotted = f"{dotted}.{attribute}"
            named = explicit.get(dotted)
            if named in self.twins:
                pointing.renamed[parent] = self.twins[named]
                return
            if named is not None or current is None:
                current = named
                continue
            exported = self.graph.exports(current).get(attribute)
            inner = self.graph.submodule_of(current, attribute) if not exported else None
            if current in self.twins:
                if inner is not None:
                    why = f"`{dotted}` is a file of its own, which the package's twin does not hold"
                    pointing.problems.append(Problem(module, parent, why))
                return
            origins = exported or ([(inner, "")] if inner is not None else [])
            if any(origin[0] in self.twins for origin in origins):
                pointing.problems.append(Problem(module, parent, f"`{dotted}` is reached through its package"))
                return
            if not origins:  # `pkg.__dict__[name]`: whatever it has
                self._handed_on(pointing, module, name, dotted.rpartition(".")[0], current)
            if not origins or origins[0][1]:
                return
            current = origins[0][0]

    def _handed_on(
        self, pointing: Pointing, module: Module, name: cst.Name, dotted: str, package: Module | None
    ) -> None:
        if package is not None and package not in self.twins and self._leads_to_twin(package):
            why = f"the package `{dotted}` is handed on, and some of it has a twin"
            pointing.problems.append(Problem(module, name, why))

    def _leads_to_twin(self, package: Module) -> bool:
        return any(origin[0] in self.twins for origins in self.graph.exports(package).values() for origin in origins)

    # ---- names

    def _twin_name(self, spelled: str, module: Module) -> str:
        """A module's name as it is spelled somewhere, with its last part made the twin's."""
        twin = self.twins[module]
        if module.is_package:
            return f"{spelled}.{twin}" if spelled.strip(".") else spelled + twin
        head, dot, _ = spelled.rpartition(".")
        return f"{head}{dot}{twin}"

    def _spelling(self, one: Import, target: Module) -> str | None:
        """How the file of an import can name another file: seen from the package that the import names."""
        if one.source is None:
            return None
        inside = parts_below(PurePath(one.source.path).parent, PurePath(target.path))
        if inside is None:
            return None
        prefix = one.source_name
        name = ".".join([prefix, *inside] if prefix.strip(".") else [prefix + inside[0], *inside[1:]])
        level = len(name) - len(name.lstrip("."))
        found = self.graph.program.local_module(one.module, name[level:], level)
        return name if found is target else None
