"""The ways that control may take through one function, or through a module's own lines, name by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

import libcst as cst

from distify_codemods import tree
from distify_codemods.libraries import python
from distify_codemods.records import dataclass

Scope = cst.FunctionDef | cst.Lambda | cst.ClassDef | cst.Module
SCOPES = (cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.Module)
EVERY = "*"  # the name of what `locals()` reads


@dataclass(eq=False)
class Point:
    """A name is read, bound or deleted here; without a name, it is a place between two of these."""

    node: cst.CSTNode
    name: str = ""  # `self.net`, `rows[0]` where an attribute or an item is set
    sets: bool = False  # or deletes: what it was is gone
    binds: bool = False
    next: list[Point] = field(default_factory=list)
    previous: list[Point] = field(default_factory=list)

    def read(self, deleted: bool = False) -> cst.Name | None:
        """The name, where it is read; `deleted`: or deleted, for which it has to be there."""
        reads = self.name and not (self.sets and (self.binds or not deleted))
        return self.node if reads and isinstance(self.node, cst.Name) else None

    def then(self, other: Point) -> None:
        self.next.append(other)
        other.previous.append(self)


class Graph:
    """All that may happen, and may fail: in a `try`, each point may be the last one. No test decides which way."""

    def __init__(self, scope: Scope) -> None:
        self.points: list[Point] = []
        self.before: dict[cst.CSTNode, Point] = {}  # statements, large and small
        self.after: dict[cst.CSTNode, Point] = {}
        self.turns: dict[cst.CSTNode, Point] = {}  # where loops begin their next turn
        self.outer: dict[str, cst.CSTNode] = {}  # declared `global` or `nonlocal`
        self.inner: list[tuple[Scope, frozenset[str]]] = []  # what is defined here, with comprehensions' variables
        self._at = self.start = Point(scope)
        self._ends: list[tuple[Point, Point]] = []  # of the loops around: where `continue` and `break` go
        self._failing: list[Point] = []  # where it goes on after what fails in a `try` around
        self._hidden: list[str] = []  # variables of the comprehensions around
        self._left: list[Point] = []
        self._in_scope(scope)

    def _in_scope(self, scope: Scope) -> None:
        if isinstance(scope, (cst.FunctionDef, cst.Lambda)):
            for one in parameters_of(scope):
                self._bind(one.name, one)
        for part in scope.body if isinstance(scope, cst.Module) else [scope.body]:
            self._visit(part)
        self._meet(scope, [*self._left, self._at])
        self.end = self._at
        for name, declared in self.outer.items():
            self._add(declared, name)  # whoever else knows the name may read it

    def _add(self, node: cst.CSTNode, name: str = "", sets: bool = False, binds: bool = False) -> Point:
        point = Point(node, name, sets, binds)
        self.points.append(point)
        self._at.then(point)
        if self._failing:
            point.then(self._failing[-1])
        self._at = point
        return point

    def _bind(self, target: cst.BaseExpression, node: cst.CSTNode | None = None) -> None:
        if isinstance(target, cst.Name):
            self._add(node or target, target.value, sets=True, binds=True)
        elif isinstance(target, (cst.Attribute, cst.Subscript)):
            self._visit(target)
            self._add(node or target, tree.code_of(target), sets=True)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._bind(element.value)
        else:
            self._visit(target)

    def _meet(self, node: cst.CSTNode, ends: Iterable[Point]) -> None:
        self._at = Point(node)
        for end in ends:
            end.then(self._at)

    def _visit(self, node: cst.CSTNode | None) -> None:
        if node is None:
            return
        is_statement, handler = _HANDLERS.get(type(node), (False, Graph._parts))
        if is_statement:
            self.before[node] = self._add(node)
        handler(self, node)
        if is_statement:
            self.after[node] = self._add(node)

    def _parts(self, node: cst.CSTNode) -> None:
        for part in tree.children(node):
            self._visit(part)

    # ---- expressions

    def _name(self, node: cst.Name) -> None:
        if node.value not in self._hidden:
            self._add(node, node.value)

    def _value(self, node: cst.Attribute | cst.Arg) -> None:
        self._visit(node.value)

    def _call(self, node: cst.Call) -> None:
        self._parts(node)
        name = node.func.value if isinstance(node.func, cst.Name) else ""
        if name in python.BY_TEXT and not (name == "vars" and node.args):
            self._add(node.func, EVERY)

    def _named(self, node: cst.NamedExpr) -> None:
        """`a and (b := c)`: it may be, or not."""
        self._visit(node.value)
        start = self._at
        self._bind(node.target)
        self._meet(node, [start, self._at])

    def _comprehension(self, node: cst.BaseComp) -> None:
        hidden = list(self._hidden)
        over: cst.CompFor | None = node.for_in
        while over is not None:
            self._visit(over.iter)
            self._hidden += tree.target_names(over.target)
            for test in over.ifs:
                self._visit(test)
            over = over.inner_for_in
        for part in tree.children(node):
            self._visit(part if part is not node.for_in else None)
        self._hidden = hidden

    def _definition(self, node: cst.FunctionDef | cst.Lambda | cst.ClassDef) -> None:
        if isinstance(node, (cst.FunctionDef, cst.Lambda)):
            for one in parameters_of(node):
                self._visit(one.default)
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            for part in (*node.decorators, *(node.bases if isinstance(node, cst.ClassDef) else ())):
                self._visit(part)
            self._bind(node.name, node)
        self.inner.append((node, frozenset(self._hidden)))

    # ---- statements

    def _assign(self, node: cst.Assign | cst.AnnAssign | cst.AugAssign) -> None:
        self._visit(node.target if isinstance(node, cst.AugAssign) else None)
        self._visit(node.value)
        for target in tree.targets(node) if node.value is not None else ():
            self._bind(target)

    def _branch(self, node: cst.If) -> None:
        self._visit(node.test)
        start, ends = self._at, []
        for arm in (node.body, node.orelse):
            self._at = start
            self._visit(arm)
            ends.append(self._at)
        self._meet(node, ends)

    def _delete(self, node: cst.Del) -> None:
        listed = [one.value for one in node.target.elements] if isinstance(node.target, cst.Tuple) else [node.target]
        for gone in listed:
            if isinstance(gone, cst.Name):
                self._add(gone, gone.value, sets=True)
            else:
                self._visit(gone)

    def _import(self, node: cst.Import | cst.ImportFrom) -> None:
        for part in tree.walk(node):
            for name in tree.bound_names(part):
                self._add(part, name, sets=True, binds=True)

    def _declare(self, node: cst.Global | cst.Nonlocal) -> None:
        self.outer.update((item.name.value, item.name) for item in node.names)

    def _jump(self, node: cst.Return | cst.Raise) -> None:
        self._parts(node)
        if isinstance(node, cst.Return):
            self._left.append(self._at)
        self._meet(node, [])  # what is written below has no way to it

    def _loop(self, node: cst.For | cst.While) -> None:
        self._visit(node.iter if isinstance(node, cst.For) else None)
        top, end, turn, done, after = self._add(node), *(Point(node) for _ in range(4))
        self.turns[node] = turn
        for one, other in ((end, turn), (turn, top), (end, done)):
            one.then(other)
        self._visit(node.test if isinstance(node, cst.While) else None)
        self._at.then(done)
        if isinstance(node, cst.For):
            self._bind(node.target)
        self._ends.append((end, after))
        self._visit(node.body)
        self._ends.pop()
        self._at.then(end)
        self._at = done
        self._visit(node.orelse)
        self._at.then(after)
        self._at = after

    def _break(self, node: cst.Break | cst.Continue) -> None:
        self._at.then(self._ends[-1][isinstance(node, cst.Break)])
        self._meet(node, [])

    def _with(self, node: cst.With) -> None:
        for item in node.items:
            self._visit(item.item)
            if item.asname is not None:
                self._bind(item.asname.name)
        self._visit(node.body)

    def _try(self, node: cst.Try | cst.TryStar) -> None:
        if node.finalbody is None:
            return self._handled(node)
        failed = Point(node)
        self._failing.append(failed)
        self._handled(node)
        self._failing.pop()
        end, self._at = self._at, failed
        self._visit(node.finalbody)  # on the way out
        self._at = end
        self._visit(node.finalbody)

    def _handled(self, node: cst.Try | cst.TryStar) -> None:
        failed = Point(node)
        self._failing.append(failed)
        self._add(node)
        self._visit(node.body)
        self._failing.pop()
        for outer in self._failing[-1:]:  # what no handler is for
            failed.then(outer)
        self._visit(node.orelse)
        ends = [self._at]
        for handler in node.handlers:
            self._meet(handler, [failed])
            self._visit(handler.type)
            name = handler.name.name if handler.name is not None else None
            if isinstance(name, cst.Name):
                self._bind(name)
            self._visit(handler.body)
            if isinstance(name, cst.Name):
                self._add(name, name.value, sets=True)
            ends.append(self._at)
        self._meet(node, ends)

    def _match(self, node: cst.Match) -> None:
        self._visit(node.subject)
        start = self._at
        ends = [start]
        for case in node.cases:
            self._at = start
            for part in tree.walk(case.pattern):
                self._visit(part.value if isinstance(part, cst.MatchValue) else None)
                captured = getattr(part, "rest" if isinstance(part, cst.MatchMapping) else "name", None)
                if isinstance(captured, cst.Name):
                    self._bind(captured)
            self._visit(case.guard)
            self._visit(case.body)
            ends.append(self._at)
        self._meet(node, ends)


def parameters_of(scope: cst.FunctionDef | cst.Lambda) -> list[cst.Param]:
    given = scope.params
    starred = [one for one in (given.star_arg, given.star_kwarg) if isinstance(one, cst.Param)]
    return [*given.posonly_params, *given.params, *given.kwonly_params, *starred]


_ALL: dict[type[cst.CSTNode], Callable[[Graph, Any], None]] = {
    **dict.fromkeys((cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp), Graph._comprehension),
    **dict.fromkeys((cst.Attribute, cst.Arg), Graph._value),
    **dict.fromkeys((cst.FunctionDef, cst.ClassDef, cst.Lambda), Graph._definition),
    **dict.fromkeys((cst.SimpleStatementLine, cst.Expr, cst.Pass, cst.Assert), Graph._parts),
    **dict.fromkeys((cst.Assign, cst.AnnAssign, cst.AugAssign), Graph._assign),
    **dict.fromkeys((cst.Import, cst.ImportFrom), Graph._import),
    **dict.fromkeys((cst.Global, cst.Nonlocal), Graph._declare),
    **dict.fromkeys((cst.Return, cst.Raise), Graph._jump),
    **dict.fromkeys((cst.Break, cst.Continue), Graph._break),
    **dict.fromkeys((cst.For, cst.While), Graph._loop),
    **dict.fromkeys((cst.Try, cst.TryStar), Graph._try),
    cst.Name: Graph._name,
    cst.Call: Graph._call,
    cst.NamedExpr: Graph._named,
    cst.Del: Graph._delete,
    cst.If: Graph._branch,
    cst.With: Graph._with,
    cst.Match: Graph._match,
}
#: With whether it is a statement.
_HANDLERS = {kind: (issubclass(kind, (cst.BaseStatement, cst.BaseSmallStatement)), do) for kind, do in _ALL.items()}
