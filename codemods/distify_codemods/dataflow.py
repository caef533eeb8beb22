"""Reaching definitions and live names: what may have bound a name that is read, and what may read what is bound.

They are found in the tree, and not by what a run has looked up: code that no run enters counts like any other, be it an
arm that a constant turns off, a function that a library calls later, or a call that a summary stands for. All of it is
about what may happen: a name that may be read on some way counts as read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import libcst as cst

from distify_codemods import tree
from distify_codemods.control_flow import EVERY, Graph, Point, Scope

Loop = cst.For | cst.While
#: What may evaluate a part of it and no other, or catch an error in it.
_PERHAPS = (*tree.PERHAPS, cst.Try, cst.TryStar, cst.With, cst.Comparison, cst.Assert)
_Reads = defaultdict[str, list[cst.Name]]
_Bindings = defaultdict[str, list[cst.CSTNode]]


class Flow:
    """Of one scope: a function, a class's body, or the lines of a module."""

    def __init__(self, scope: Scope) -> None:
        self._graph = graph = Graph(scope)
        self.own = {point.name for point in graph.points if point.binds} - graph.outer.keys()
        self._below: dict[cst.CSTNode, frozenset[cst.CSTNode]] = {}
        self._seen = set() if isinstance(scope, cst.ClassDef) else self.own  # methods do not see their class's names

    @cached_property
    def _others(self) -> tuple[_Reads, _Bindings]:
        """Where functions that are defined here read and set its names, at any time, and those of scopes around."""
        read, bound = _Reads(list), _Bindings(list)
        for scope, hidden in self._graph.inner:
            inner_read, inner_bound = Flow(scope)._free()
            for name in inner_read.keys() - hidden:
                read[name] += inner_read[name]
            for name, nodes in inner_bound.items():
                bound[name] += nodes
        return read, bound

    def _free(self) -> tuple[_Reads, _Bindings]:
        """Where names of scopes around are read and set, here and in functions that are defined here."""
        read, bound = self._others
        read = _Reads(list, {name: [*nodes] for name, nodes in read.items() if name not in self._seen})
        bound = _Bindings(list, {name: [*nodes] for name, nodes in bound.items() if name not in self.own})
        for point in self._graph.points:
            if point.sets and point.name in self._graph.outer:
                bound[point.name].append(point.node)
            elif (node := point.read()) and point.name not in self.own:
                read[point.name].append(node)
        return read, bound

    # ---- reads

    def reads(self, within: cst.CSTNode, name: str = "") -> list[cst.Name]:
        """The reads of a name, or of any, inside a node; also in functions that are defined there."""
        inside = self._inside(within)
        own = [node for one in self._graph.points if (node := one.read()) and name in ("", one.name)]
        others = [node for one, nodes in self._others[0].items() if name in ("", one) for node in nodes]
        return [node for node in dict.fromkeys((*own, *others)) if node in inside]

    def reads_after(
        self, node: cst.CSTNode, name: str, last_turn: Loop | None = None, deleted: bool = False
    ) -> list[cst.Name]:
        """Where a name may be read, or deleted, with the value that it has when control leaves a statement.

        `last_turn`: of this loop, which has no other after it.
        """
        without = [self._graph.turns[last_turn]] if last_turn is not None else []
        return self._read_from(self._graph.after[node], name, without, deleted)

    def uses(self, binding: cst.CSTNode) -> list[cst.Name]:
        """Where the name may be read with what a target, a parameter or a definition has bound it to."""
        starts = [point for point in self._graph.points if point.node is binding and point.sets]
        return [node for one in starts for node in self._read_from(one.next[0], one.name)]

    def carried(self, loop: Loop, name: str) -> list[cst.Name]:
        """Where a name may be read with the value that a turn of a loop has left in it."""
        return self._read_from(self._graph.turns[loop], name)

    def _read_from(
        self, start: Point, name: str, without: Iterable[Point] = (), deleted: bool = False
    ) -> list[cst.Name]:
        reached = {point for point in _along([start], name, _next, without) if point.name in (name, EVERY)}
        found = [node for one in self._graph.points if one in reached and (node := one.read(deleted))]
        return [*found, *self._others[0].get(name, [])]

    def _inside(self, within: cst.CSTNode) -> frozenset[cst.CSTNode]:
        if within not in self._below:
            self._below[within] = frozenset(tree.walk(within))
        return self._below[within]

    # ---- definitions

    def bindings(self, within: cst.CSTNode, name: str) -> list[cst.CSTNode]:
        """What binds or deletes a name inside a node."""
        inside = self._inside(within)
        found = dict.fromkeys(one.node for one in self._graph.points if one.sets and one.name == name)
        return [node for node in found if node in inside]

    def reaching(self, read: cst.CSTNode) -> list[cst.CSTNode]:
        """What may have bound a name that is read, or deleted it."""
        points = [one for one in self._graph.points if one.node is read and not one.sets]
        return self._set_above([before for one in points for before in one.previous], points[0].name) if points else []

    def reaching_loop(self, loop: Loop, name: str) -> list[cst.CSTNode]:
        """What may have bound a name when a loop begins its first turn, also by another time that it was begun."""
        return self._set_above([self._graph.before[loop]], name)

    def _set_above(self, starts: Iterable[Point], name: str) -> list[cst.CSTNode]:
        reached = list(_along(starts, name, _previous))
        found = [one.node for one in reached if one.sets and one.name == name]
        if name in self._graph.outer and self._graph.start in reached:
            found.append(self._graph.outer[name])  # whatever it was when the function was called
        return [*found, *self._others[1].get(name, ())]

    def is_bound_before(self, statement: cst.CSTNode, name: str) -> bool:
        """Whether something binds a name on a way to a statement, other than through later turns of loops."""
        reached = _along([self._graph.before[statement]], name, _previous, self._graph.turns.values())
        return any(one.binds and one.name == name for one in reached)

    def may_be_unbound(self, statement: cst.CSTNode, name: str, after: bool = False) -> bool:
        """Whether control may come to a statement, or leave it, before a name of this scope was bound to anything.

        It does not come past where the name is read: there it would end.
        """
        start = (self._graph.after if after else self._graph.before)[statement]
        ends = (one for one in self._graph.points if one.name == name and one.read() in self._uncaught)
        return name in self.own and self._graph.start in _along([start], name, _previous, ends)

    @cached_property
    def _uncaught(self) -> frozenset[cst.CSTNode]:
        """What is evaluated for certain where control comes to it, and whose error nothing around may catch."""
        perhaps = (node for node in tree.walk(self._graph.start.node) if isinstance(node, _PERHAPS))
        left_out = {node for one in perhaps for node in tree.walk(one)}
        return frozenset(point.node for point in self._graph.points if point.node not in left_out)

    def may_be_as_before(self, statement: cst.CSTNode | None, name: str, past: Iterable[cst.CSTNode] = ()) -> bool:
        """Whether control may come to a statement with a name, or `self.net`, or `rows[0]`, as the scope found it.

        None: to the end of the scope. `past`: statements behind which it is another one, as a call in them sets it.
        """
        start = self._graph.before[statement] if statement is not None else self._graph.end
        return self._graph.start in _along([start], name, _previous, [self._graph.after[one] for one in past])

    def set_before(self, statement: cst.CSTNode, name: str, after: bool = False) -> set[cst.CSTNode]:
        """What may have set a name, or `self.net`, when control comes to a statement, or leaves it: the scope itself
        where it may be as that found it."""
        reached = set(_along([(self._graph.after if after else self._graph.before)[statement]], name, _previous))
        found = {one.node for one in reached if one.sets and one.name == name}
        return found | {self._graph.start.node} if self._graph.start in reached else found

    def set_between(self, first: cst.CSTNode, last: cst.CSTNode) -> set[str]:
        """The names, and attributes like `self.net`, that may be set from a statement on, before another one begins."""
        turns = self._graph.turns.values()
        behind = set(_along([self._graph.before[first]], "", _next, turns))
        ahead = _along([self._graph.before[last]], "", _previous, turns)
        return {one.name for one in ahead if one.sets and one in behind}

    def follows(self, one: cst.CSTNode, other: cst.CSTNode, turns: bool = True) -> bool:
        """Whether control may come to a node when it goes on from a statement; `turns`: also in later ones of loops."""
        inside, without = set(tree.walk(other)), () if turns else self._graph.turns.values()
        return any(point.node in inside for point in _along([self._graph.after[one]], "", _next, without))


def _next(point: Point) -> list[Point]:
    return point.next


def _previous(point: Point) -> list[Point]:
    return point.previous


def _along(
    starts: Iterable[Point], name: str, onward: Callable[[Point], list[Point]], without: Iterable[Point] = ()
) -> Iterator[Point]:
    """The points on all ways from some, as far as what binds the name; nothing behind those that are left out."""
    seen, waiting = set(without), list(starts)
    while waiting:
        point = waiting.pop()
        if point not in seen:
            seen.add(point)
            yield point
            if not (name and point.sets and point.name == name):
                waiting += onward(point)
