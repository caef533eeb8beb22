"""What the script itself calls an object: the variable, attribute or item that holds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.events import Kind
from distify_codemods.inside import core
from distify_codemods.interpreter import Run
from distify_codemods.objects import Mapping, Sequence
from distify_codemods.program import Module, Program
from distify_codemods.results import Place
from distify_codemods.values import Value

LONGEST = 60


class Names:
    """Names of the objects of one run. Looked up for messages alone: costs a walk over the files."""

    def __init__(self, program: Program, run: Run) -> None:
        self.program, self.run = program, run

    def of(self, obj: Obj) -> str:
        """The user's own expression for an object, as short as there is one."""
        best = min(self._ranked(obj), default=None)
        if best is not None:
            return best[-1]
        return brief(obj.site) if obj.site is not None else "?"

    def place(self, obj: Obj) -> Place | None:
        """Where the object was made."""
        known = obj.module is not None and obj.site is not None and obj.site in obj.module.parents
        return obj.module.place(obj.site) if known and obj.module and obj.site else None

    def with_place(self, obj: Obj) -> str:
        """`net` (train.py:8)"""
        place = self.place(obj)
        return f"`{self.of(obj)}` ({place})" if place else f"`{self.of(obj)}`"

    def in_order(self, objs: Iterable[Obj]) -> list[Obj]:
        """Objects in the order of the places where they were made."""
        return sorted(objs, key=lambda obj: (_order(self.place(obj)), obj.number))

    def _ranked(self, obj: Obj) -> Iterator[tuple[bool, bool, bool, int, int, str]]:
        for module, target, value in self.bindings:
            for name, held in _parts(tree.code_of(target), value):
                objs = {core(one) for one in held.objs}
                if obj in objs:
                    place = module.place(target)
                    at_site = module is obj.module and self._same_statement(module, target, obj)
                    elsewhere = module is not self.program.entry
                    yield len(objs) > 1, elsewhere, not at_site, place.line, place.column, name

    def _same_statement(self, module: Module, target: cst.CSTNode, obj: Obj) -> bool:
        site = obj.site
        return site is not None and site in module.parents and module.statement(site) is module.statement(target)

    @cached_property
    def bindings(self) -> list[tuple[Module, cst.BaseExpression, Value]]:
        """What is assigned to, with what it holds."""
        stored = {event.node: event.value for event in self.run.events if event.kind is Kind.STORE}
        found = []
        for module in self.run.frames:
            for node in module.nodes:
                if isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.NamedExpr)):
                    for target in tree.leaves(node.target):
                        value = stored.get(target) or self.run.values.get(target)
                        if value is not None and value.objs:
                            found.append((module, target, value))
        return found


def _order(place: Place | None) -> tuple[str, int, int]:
    return (place.path, place.line, place.column) if place else ("", 0, 0)


def brief(node: cst.CSTNode) -> str:
    """An expression or a statement in one line, without the comments above it."""
    if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
        node = node.with_changes(leading_lines=())
    text = " ".join(tree.code_of(node).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _parts(name: str, value: Value) -> Iterator[tuple[str, Value]]:
    """The thing itself and, of lists and dictionaries, what is known to stand in them."""
    yield name, value
    for obj in value.objs:
        if isinstance(obj, Mapping):
            yield from ((f"{name}[{key!r}]", one) for key, one in obj.items.items())
        elif isinstance(obj, Sequence) and obj.items is not None:
            yield from ((f"{name}[{number}]", one) for number, one in enumerate(obj.items))
