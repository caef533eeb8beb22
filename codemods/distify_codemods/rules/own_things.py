"""Whether a piece of the script looks at what was there before it, and changes nothing of that.

Seen in the text, of every use of a name that the piece has not bound itself: texts, numbers and paths may go anywhere;
anything else may only be asked for what makes something new of it. What is neither is taken for a change.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.callables import called
from distify_codemods.facts import Facts
from distify_codemods.libraries import lasting
from distify_codemods.objects import Class, External, Function, Setting
from distify_codemods.program import Module
from distify_codemods.rules import left_behind
from distify_codemods.wholes import Whole

_CHANGES_NAMES = (cst.Global, cst.Nonlocal, cst.Del)
_PLAIN = (Const, Setting, Ref, Function, Class)
_LOOKING = (
    cst.Comparison, cst.ComparisonTarget, cst.BinaryOperation, cst.UnaryOperation, cst.FormattedStringExpression,
    cst.If, cst.IfExp, cst.While, cst.Assert, cst.Index,
)  # fmt: skip
_PARTS = (cst.Attribute, cst.Subscript)
_DEEPEST = 4
_COMPREHENSIONS = (cst.ListComp, cst.SetComp)


class OwnThings:
    """Of one piece."""

    def __init__(self, facts: Facts, whole: Whole) -> None:
        self._facts, self._whole = facts, whole

    def are_all(self) -> bool:
        """Whether nothing else is changed, or given away."""
        return all(self._is_harmless(module, text) for module, text in self._texts)

    @cached_property
    def _texts(self) -> list[tuple[Module, cst.CSTNode]]:
        """The branch, or the functions that are called; and all functions of the script's own that these name."""
        node = self._whole.node
        if isinstance(node, cst.If):
            found: dict[cst.CSTNode, Module] = {node: self._whole.module}
        else:
            found = {one: self._facts.module_of(one) for one in called(self._facts.value(node.func).objs)}
        queue = list(found)
        while queue:
            for inner in tree.walk(queue.pop()):
                objs = self._facts.value(inner).objs if isinstance(inner, (cst.Name, cst.Attribute)) else ()
                for one in called(obj for obj in objs if not isinstance(obj, Class)):
                    if one not in found:
                        found[one] = self._facts.module_of(one)
                        queue.append(one)
        return [(module, text) for text, module in found.items()]

    def _is_harmless(self, module: Module, text: cst.CSTNode) -> bool:
        if isinstance(text, cst.FunctionDef) and text.decorators:
            return False  # one may keep what it has returned
        if any(isinstance(node, _CHANGES_NAMES) for node in tree.walk(text)):
            return False
        return all(self._is_only_looked_at(module, name) for name in self._outer(module, text))

    def _outer(self, module: Module, text: cst.CSTNode) -> Iterator[cst.Name]:
        """The uses of names that are bound elsewhere: parameters, names of scopes around, what a branch has found."""
        inside = set(tree.walk(text))
        for node in inside:
            if not isinstance(node, cst.Name) or not _is_read(module, node) or self._is_pythons(module, node):
                continue
            bound = module.flow(node).reaching(node)
            in_a_row = any(node.value in _turned_over(one) for one in module.enclosing(node) if one in inside)
            if not in_a_row and not (bound and all(one in inside and not isinstance(one, cst.Param) for one in bound)):
                yield node

    def _is_pythons(self, module: Module, node: cst.Name) -> bool:
        """`OSError`, `None`: not bound by the script."""
        own = self._facts.run.frames.get(module)
        return hasattr(builtins, node.value) and not (own is not None and node.value in own.env)

    def _is_only_looked_at(self, module: Module, name: cst.Name) -> bool:
        if self._is_plain(name) or self._is_a_number(module, name) or self._is_handed_on(module, name):
            return True
        top: cst.CSTNode = name
        while isinstance(parent := module.parents.get(top), _PARTS) and parent.value is top:
            top = parent
            assert isinstance(top, cst.BaseExpression)
            if self._is_plain(top):  # `self.path`, and `self.fetch` of the script's own
                return not self._is_set(module, top)
        return self._is_looking(module, top)

    def _is_a_number(self, module: Module, node: cst.BaseExpression, depth: int = 0) -> bool:
        """`n = len(rows)`, `SIZE = 3 * WIDTH`: as it is written, wherever its names are bound."""
        if isinstance(node, (cst.Integer, cst.Float)) or depth > _DEEPEST:
            return depth <= _DEEPEST
        if isinstance(node, cst.BinaryOperation):
            return all(self._is_a_number(module, one, depth + 1) for one in (node.left, node.right))
        if isinstance(node, cst.Call):
            objs = self._facts.value(node.func).objs
            return bool(objs) and all(isinstance(obj, Ref) and lasting.counts(obj.name) for obj in objs)
        if not isinstance(node, cst.Name):
            return self._is_plain(node)
        rows = [getattr(one, "for_in", None) for one in module.enclosing(node) if node.value in _turned_over(one)]
        if rows:
            return all(isinstance(one, cst.CompFor) and self._counts_turns(one.iter) for one in rows)
        bound = module.flow(node).reaching(node) or list(_at_the_top(module, node.value))
        given = [_given_by(module, one) for one in bound if not self._is_turned(module, one)]
        return bool(bound) and all(one is not None and self._is_a_number(module, one, depth + 1) for one in given)

    def _is_turned(self, module: Module, target: cst.CSTNode) -> bool:
        """`for target in range(n):`"""
        loop = module.parents.get(target)
        return isinstance(loop, cst.For) and self._counts_turns(loop.iter)

    def _counts_turns(self, rows: cst.BaseExpression) -> bool:
        objs = self._facts.value(rows.func).objs if isinstance(rows, cst.Call) else ()
        return bool(objs) and all(isinstance(obj, Ref) and lasting.counts_turns(obj.name) for obj in objs)

    def _is_handed_on(self, module: Module, name: cst.Name) -> bool:
        """Whether it is a parameter of a function that the piece gives what it has made itself."""
        function = module.function(name)
        place = left_behind.place_of_parameter(function, name.value)
        if place is None or not isinstance(function, cst.FunctionDef) or function is self._texts[0][1]:
            return False
        given = [
            (at, text, one)
            for at, text in self._texts for call in tree.walk(text) if isinstance(call, cst.Call)
            for one in left_behind.given_to(function, call, place)
        ]  # fmt: skip
        return bool(given) and all(
            left_behind.is_made_in(self._facts, at, text, one) or (one is not None and self._is_a_number(at, one))
            for at, text, one in given
        )

    def _is_plain(self, node: cst.BaseExpression) -> bool:
        objs = self._facts.value(node).objs
        return bool(objs) and not self._facts.value(node).open and all(map(_is_plain_object, objs))

    @staticmethod
    def _is_set(module: Module, node: cst.CSTNode) -> bool:
        return isinstance(module.parents.get(node), (cst.AssignTarget, cst.AugAssign, cst.AnnAssign))

    def _is_looking(self, module: Module, top: cst.CSTNode) -> bool:
        """Whether what is around an expression makes something new of it, or nothing."""
        parent = module.parents.get(top)
        if isinstance(parent, cst.Call):  # it is called itself
            method = top.attr.value if isinstance(top, cst.Attribute) else ""
            return lasting.makes_anew(method)
        if isinstance(parent, cst.Arg):
            call = module.parents.get(parent)
            return isinstance(call, cst.Call) and self._takes_a_look(call)
        if isinstance(parent, _COMPREHENSIONS):
            return parent.elt is top
        return isinstance(parent, _LOOKING)

    def _takes_a_look(self, call: cst.Call) -> bool:
        """A function that keeps its hands off what it is given; one of the script's own is looked at by itself."""
        objs = self._facts.value(call.func).objs
        return bool(objs) and all(
            isinstance(obj, Function) or (isinstance(obj, Ref) and lasting.only_looks(obj.name)) for obj in objs
        )


def _is_read(module: Module, node: cst.Name) -> bool:
    parent = module.parents.get(node)
    if isinstance(parent, cst.Attribute):
        return parent.value is node
    if isinstance(parent, cst.Arg):
        return parent.value is node
    if isinstance(parent, cst.Param):
        return parent.default is node
    return not _is_bound(module, node)


def _is_bound(module: Module, name: cst.CSTNode) -> bool:
    """Whether it is a target: also `a` in `a, b = f()` and `for a, b in rows`."""
    inner, parent = name, module.parents.get(name)
    while isinstance(parent, (cst.Element, cst.StarredElement, cst.Tuple, cst.List)):
        inner, parent = parent, module.parents.get(parent)
    if isinstance(parent, (cst.For, cst.CompFor)):
        return parent.target is inner
    return isinstance(
        parent, (cst.AssignTarget, cst.FunctionDef, cst.ClassDef, cst.AsName, cst.ImportAlias, cst.NameItem)
    )


def _at_the_top(module: Module, name: str) -> Iterator[cst.CSTNode]:
    """What binds a name of the file, anywhere in it."""
    for node in module.nodes:
        if isinstance(node, cst.Name) and node.value == name and _is_bound(module, node):
            yield node


def _given_by(module: Module, target: cst.CSTNode) -> cst.BaseExpression | None:
    """What a plain assignment gives; None for whatever else binds a name."""
    parent = module.parents.get(target)
    assigned = module.parents.get(parent) if isinstance(parent, cst.AssignTarget) else None
    return assigned.value if isinstance(assigned, cst.Assign) else None


def _turned_over(node: cst.CSTNode) -> set[str]:
    """The names that a comprehension binds."""
    row = getattr(node, "for_in", None)
    found: set[str] = set()
    while isinstance(row, cst.CompFor):
        found.update(tree.target_names(row.target))
        row = row.inner_for_in
    return found


def _is_plain_object(obj: Obj) -> bool:
    """A text, a number, a path, a function, a module; and what each thread has of its own."""
    made = isinstance(obj, External) and (lasting.is_a_text(obj.name) or lasting.is_of_a_thread(obj.name))
    return isinstance(obj, _PLAIN) or made
