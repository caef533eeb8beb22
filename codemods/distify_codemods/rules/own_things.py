"""Whether a piece of the script looks at what was there before it, and changes nothing of that.

Seen in the text, of every use of a name that the piece has not bound itself: texts, numbers, paths and functions may go
anywhere; anything else may only be asked for what makes something new of it, and holds no part of it. What is neither
is taken for a change. So what the piece has bound itself is its own.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from functools import cached_property

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.callables import called
from distify_codemods.facts import Facts
from distify_codemods.libraries import lasting
from distify_codemods.objects import Bound, Class, External, Function, Setting
from distify_codemods.program import Module
from distify_codemods.wholes import Whole

_CHANGES_NAMES = (cst.Global, cst.Nonlocal, cst.Del)
_PLAIN = (Const, Setting, Ref, Function, Bound)
#: Around an expression, what makes no more of it than an answer; and operators whose results hold none of its parts.
_ASKING = (cst.Comparison, cst.ComparisonTarget, cst.FormattedStringExpression, cst.Assert, cst.Index)
_TESTING = (cst.If, cst.IfExp, cst.While)
_MAKING = (cst.Divide, cst.FloorDivide, cst.Subtract, cst.Modulo, cst.Power)
_PARTS = (cst.Attribute, cst.Subscript)
_BINDING = (cst.AssignTarget, cst.FunctionDef, cst.ClassDef, cst.AsName, cst.ImportAlias, cst.NameItem)
#: Names in there are used where a function is defined, or are those of files.
_NO_USE = (cst.Annotation, cst.Import, cst.ImportFrom)
_SEVERAL = (cst.Element, cst.StarredElement, cst.Tuple, cst.List)
_DEEPEST = 4


class OwnThings:
    """Of one piece."""

    def __init__(self, facts: Facts, whole: Whole) -> None:
        self._facts, self._whole = facts, whole

    def are_all(self) -> bool:
        """Whether nothing else is changed, or given away."""
        return all(self._is_harmless(module, text) for module, text in self.texts)

    @cached_property
    def texts(self) -> list[tuple[Module, cst.CSTNode]]:
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
        for node in tree.walk(text):
            if not isinstance(node, cst.Name) or not _is_read(module, node):
                continue
            if any(isinstance(one, _NO_USE) for one in module.enclosing(node)):
                continue
            bound = module.flow(node).reaching(node)
            in_a_row = any(node.value in _turned_over(one) for one in module.enclosing(node) if one in inside)
            own = in_a_row or (bool(bound) and all(one in inside and not isinstance(one, cst.Param) for one in bound))
            if not own and (bound or not self._is_pythons(module, node)):
                yield node

    def _is_pythons(self, module: Module, node: cst.Name) -> bool:
        """`OSError`, `None`: not bound by the script."""
        own = self._facts.run.frames.get(module)
        return hasattr(builtins, node.value) and not (own is not None and node.value in own.env)

    # ---- what is done with what is there already

    def _is_only_looked_at(self, module: Module, name: cst.Name) -> bool:
        if self._is_plain(name) or self._is_a_number(module, name) or self._is_handed_on(module, name):
            return True
        top: cst.CSTNode = name
        while isinstance(parent := module.parents.get(top), _PARTS) and parent.value is top:
            top = parent
            if self._is_plain(parent):  # `self.path`
                return not _is_bound(module, parent) and not isinstance(module.parents.get(parent), cst.AugAssign)
        return self._is_looking(module, top)

    def _is_plain(self, node: cst.BaseExpression) -> bool:
        value = self._facts.value(node)
        return bool(value.objs) and not value.open and all(map(_is_plain_object, value.objs))

    def _is_looking(self, module: Module, top: cst.CSTNode) -> bool:
        """Whether what is around an expression makes something new of it, or nothing."""
        parent = module.parents.get(top)
        if isinstance(parent, cst.Call):  # it is called itself
            return isinstance(top, cst.Attribute) and lasting.is_of_texts(top.attr.value)
        if isinstance(parent, cst.Arg):
            call = module.parents.get(parent)
            return isinstance(call, cst.Call) and self._takes_a_look(call)
        if isinstance(parent, cst.BinaryOperation):
            return isinstance(parent.operator, _MAKING)
        return isinstance(parent, _ASKING) or (isinstance(parent, _TESTING) and parent.test is top)

    def _takes_a_look(self, call: cst.Call) -> bool:
        """A function that keeps its hands off what it is given; one of the script's own is looked at by itself."""
        objs = self._facts.value(call.func).objs
        return bool(objs) and all(
            isinstance(obj, (Function, Bound)) or (isinstance(obj, Ref) and lasting.only_looks(obj.name))
            for obj in objs
        )

    # ---- numbers

    def _is_a_number(self, module: Module, node: cst.BaseExpression, depth: int = 0) -> bool:
        """`n = len(rows)`, `SIZE = 3 * WIDTH`: as it is written, wherever its names are bound."""
        if isinstance(node, cst.BinaryOperation) and depth < _DEEPEST:
            return all(self._is_a_number(module, one, depth + 1) for one in (node.left, node.right))
        if isinstance(node, cst.Call):
            return self._calls(node, lasting.is_a_number)
        if not isinstance(node, cst.Name) or depth >= _DEEPEST:
            return isinstance(node, (cst.Integer, cst.Float))
        rows = [one.for_in for one in module.enclosing(node)
                if isinstance(one, cst.BaseComp) and node.value in _turned_over(one)]  # fmt: skip
        if rows:
            return all(self._calls(one.iter, _counts_turns) for one in rows)
        bound = module.flow(node).reaching(node) or list(_bindings(module, node.value))
        given = [_given_by(module, one) for one in bound if not self._is_turned(module, one)]
        return bool(bound) and all(one is not None and self._is_a_number(module, one, depth + 1) for one in given)

    def _is_turned(self, module: Module, target: cst.CSTNode) -> bool:
        """`for target in range(n):`"""
        loop = module.parents.get(target)
        return isinstance(loop, cst.For) and self._calls(loop.iter, _counts_turns)

    def _calls(self, node: cst.BaseExpression, what: Callable[[str], bool]) -> bool:
        objs = self._facts.value(node.func).objs if isinstance(node, cst.Call) else ()
        return bool(objs) and all(isinstance(obj, Ref) and what(obj.name) for obj in objs)

    # ---- parameters

    def _is_handed_on(self, module: Module, name: cst.Name) -> bool:
        """Whether it is a parameter of a function that the piece gives what it has made itself."""
        function = module.function(name)
        place = _place_of_parameter(function, name.value)
        if place is None or not isinstance(function, cst.FunctionDef) or function is self.texts[0][1]:
            return False
        given = [
            (at, text, one)
            for at, text in self.texts for call in tree.walk(text) if isinstance(call, cst.Call)
            for one in _given_to(function, call, place)
        ]  # fmt: skip
        return bool(given) and all(
            one is not None and (self._is_made_in(at, text, one) or self._is_a_number(at, one))
            for at, text, one in given
        )

    def _is_made_in(self, module: Module, text: cst.CSTNode, node: cst.BaseExpression) -> bool:
        """Whether a name holds what a call of a library has made there, whichever way led to where it is read."""
        if not isinstance(node, cst.Name) or node not in module.parents:
            return False
        inside, bound = set(tree.walk(text)), module.flow(node).reaching(node)
        made = [_given_by(module, one) for one in bound if one in inside]
        return len(made) == len(bound) > 0 and all(one is not None and self._calls(one, bool) for one in made)


def _counts_turns(name: str) -> bool:
    return name == lasting.COUNTS_TURNS


def _place_of_parameter(function: cst.CSTNode, name: str) -> int | None:
    given = function.params.params if isinstance(function, cst.FunctionDef) else ()
    return next((place for place, one in enumerate(given) if one.name.value == name), None)


def _given_to(function: cst.FunctionDef, call: cst.Call, place: int) -> list[cst.BaseExpression | None]:
    """`f(a, b)`, `pool.submit(f, a, b)`: what a function gets for a parameter."""
    parts = (call.func, *(one.value for one in call.args))
    handed = [n for n, one in enumerate(parts) if isinstance(one, cst.Name) and one.value == function.name.value]
    given = [one.value if one.keyword is None and not one.star else None for one in call.args]
    return [given[number + place] if number + place < len(given) else None for number in handed]


def _is_read(module: Module, node: cst.Name) -> bool:
    parent = module.parents.get(node)
    if isinstance(parent, (cst.Attribute, cst.Arg)):
        return parent.value is node
    if isinstance(parent, cst.Param):
        return parent.default is node
    return not _is_bound(module, node)


def _is_bound(module: Module, target: cst.CSTNode) -> bool:
    """Whether it is a target: also `a` in `a, b = f()` and `for a, b in rows`."""
    inner, parent = target, module.parents.get(target)
    while isinstance(parent, _SEVERAL):
        inner, parent = parent, module.parents.get(parent)
    if isinstance(parent, (cst.For, cst.CompFor)):
        return parent.target is inner
    return isinstance(parent, _BINDING)


def _bindings(module: Module, name: str) -> Iterator[cst.CSTNode]:
    """What binds a name, anywhere in the file."""
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
    row, found = getattr(node, "for_in", None), set[str]()
    while isinstance(row, cst.CompFor):
        found.update(tree.target_names(row.target))
        row = row.inner_for_in
    return found


def _is_plain_object(obj: Obj) -> bool:
    """A text, a number, a path, a function, a module; and what each thread has of its own."""
    made = isinstance(obj, External) and (lasting.is_a_text(obj.name) or lasting.is_of_a_thread(obj.name))
    return isinstance(obj, _PLAIN) or made
