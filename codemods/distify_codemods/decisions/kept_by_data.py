"""What a data set, or a transform, keeps of the samples that it is asked for: a count, the last sample, a place in a
stream.

Each rank asks for its own samples. What is kept of them is another one on each, and so are samples that follow from it.
What is kept for an index (a cache), or made once (an open file), is the same whoever asks.

It is read off the text, as no run comes there: what one method writes and another reads, another name of a list, and
functions that a method hands its object to are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

import libcst as cst

from distify_codemods import tree
from distify_codemods.control_flow import parameters_of
from distify_codemods.decisions.base import Link
from distify_codemods.decisions.made_for_samples import functions_of, makers
from distify_codemods.decisions.of_before import ASSIGNMENTS, Assignment, may_be_of_before, names_of_others, reads_of
from distify_codemods.facts import Facts
from distify_codemods.libraries import python
from distify_codemods.naming import brief
from distify_codemods.objects import Function
from distify_codemods.program import Module

_ADDING = python.ADDING | {"update"}
_TAKING = frozenset("pop popleft".split())
_SAME = (cst.Equal, cst.NotEqual, cst.In, cst.NotIn)


def links(facts: Facts) -> Iterator[Link]:
    found = dict.fromkeys(
        (function.module, node) for obj in makers(facts) for function, node in _kept(list(functions_of(obj)))
    )  # fmt: skip
    for module, node in found:
        if module is not None:
            yield Link(
                module, node,
                f"`{brief(node)}` keeps something of the samples that are asked for, which are a rank's own",
                "what follows from a sample's index is the same whoever asks for it",
            )  # fmt: skip


def _kept(functions: list[Function]) -> Iterator[tuple[Function, cst.CSTNode]]:
    """What the methods of one object keep."""
    own = [
        _Keeping(one, one.module, one.node) for one in functions
        if one.module is not None and isinstance(one.node, cst.FunctionDef)
    ]  # fmt: skip
    setting = {one.name for one in own if any(one.stores())}
    for keeping in own:
        for node in keeping.found(setting):
            yield keeping.function, node


class _Keeping:
    """In one function, which is called for a sample."""

    def __init__(self, function: Function, module: Module, node: cst.FunctionDef) -> None:
        self.function, self.name = function, node.name.value
        self._module, self._node = module, node
        self._given = [one.name.value for one in parameters_of(node)]
        self._own = self._given[0] if self._given else ""
        self._others = names_of_others(node)
        self._of_a_sample = set(self._given[1:])
        for one in tree.walk(node.body):
            if isinstance(one, ASSIGNMENTS) and one.value is not None and self._follows_from_a_sample(one.value):
                self._of_a_sample.update(name for target in tree.targets(one) for name in tree.target_names(target))
        self._bound = {name for one in tree.walk(node.body) for name in tree.bound_names(one)}
        self._copied: dict[str, set[str]] = {}  # names that are given what is read of attributes: `n = self.n`
        for one in tree.walk(node.body):
            if isinstance(one, (cst.Assign, cst.AnnAssign, cst.NamedExpr)) and one.value is not None:
                read = {tree.code_of(part) for part in _expressions(one.value) if not isinstance(part, cst.Name)}
                targets = tree.targets(one) if not isinstance(one, cst.NamedExpr) else [one.target]
                for name in (name for target in targets for name in tree.target_names(target)):
                    self._copied.setdefault(name, set()).update(read)

    def stores(self) -> Iterator[Assignment]:
        """What sets an attribute anew, other than what is looked up, or was not there yet."""
        for node in tree.walk(self._node.body):
            if isinstance(node, ASSIGNMENTS) and not isinstance(node, cst.AugAssign) and node.value is not None:
                leaves = [leaf for one in tree.targets(node) for leaf in tree.leaves(one)]
                names = {tree.code_of(one) for one in leaves if isinstance(one, cst.Attribute) and self._lasts(one)}
                asked = {tree.code_of(one) for test in self._tests(node) for one in _expressions(test)}
                if names and names.isdisjoint(asked):
                    yield node

    def found(self, setting: Set[str]) -> Iterator[cst.CSTNode]:
        """setting: methods of the same object that set something anew."""
        for node in tree.walk(self._node.body):
            if isinstance(node, ASSIGNMENTS) and node.value is not None:
                leaves = [leaf for one in tree.targets(node) for leaf in tree.leaves(one)]
                kept = any(self._lasts(leaf) and self._is_kept(node, leaf) for leaf in leaves)
            else:
                kept = isinstance(node, cst.Call) and (self._changes(node) or self._is_at_some_samples(node, setting))
            if kept and not self._is_looked_up(node):
                yield node

    def _lasts(self, place: cst.BaseExpression) -> bool:
        """`self.count`, `self.counts[i]`, a name of the module."""
        first = list(tree.inwards(place))[-1]
        name = first.value if isinstance(first, cst.Name) else ""
        if first is place:
            return name in self._others  # or it is a name of this function
        return name == self._own or self._is_of_the_module(name)

    def _is_of_the_module(self, name: str) -> bool:
        """`COUNTS[0] += 1`, `Samples.count += 1`: of a name that the file gives to an object or a class of its own."""
        if name in self._given or (name in self._bound and name not in self._others):
            return False
        made = self._module.flow(self._module.tree).bindings(self._module.tree, name)
        return any(isinstance(one, (cst.Name, cst.ClassDef)) for one in made)

    def _is_kept(self, node: Assignment, place: cst.BaseExpression) -> bool:
        if not may_be_of_before(self._module, node, place):
            return False
        if isinstance(node, cst.AugAssign) or any(reads_of(self._module, place, node.value or node)):
            return True
        if node.value is not None and any(
            tree.code_of(place) in self._copied.get(name, ()) for name in tree.names(node.value)
        ):
            return True
        if isinstance(place, cst.Subscript) or node.value is None or not self._follows_from_a_sample(node.value):
            return False
        return any(
            may_be_of_before(self._module, one, place) for one in reads_of(self._module, place, self._node)
        )  # fmt: skip

    def _changes(self, call: cst.Call) -> bool:
        """`self.seen.append(i)`, `self.order.pop()`, `next(self.stream)`"""
        if isinstance(call.func, cst.Name) and call.func.value == "next" and call.args:
            holder = call.args[0].value
            return self._holds(call, holder)
        if not isinstance(call.func, cst.Attribute):
            return False
        if call.func.attr.value == "shuffle" and call.args:
            return self._holds(call, call.args[0].value)
        holder, name = call.func.value, call.func.attr.value
        alone = isinstance(self._module.parents.get(call), cst.Expr)  # a tensor's `add` gives another one
        adds = name in _ADDING and alone and any(self._follows_from_a_sample(one.value) for one in call.args)
        return (adds or name in _TAKING) and self._holds(call, holder)

    def _holds(self, call: cst.Call, holder: cst.BaseExpression) -> bool:
        """Whether a list, a stream or the like is there before and after."""
        lasts = self._is_of_the_module(holder.value) if isinstance(holder, cst.Name) else self._lasts(holder)
        return lasts and may_be_of_before(self._module, call, holder)

    def _is_at_some_samples(self, call: cst.Call, setting: Set[str]) -> bool:
        """`if index == len(self) - 1: self.reshuffle()`: only the rank that is asked for that sample does."""
        own = isinstance(call.func, cst.Attribute) and tree.code_of(call.func.value) == self._own
        if not own or not isinstance(call.func, cst.Attribute) or call.func.attr.value not in setting:
            return False
        return any(map(self._follows_from_a_sample, self._tests(call)))

    def _tests(self, node: cst.CSTNode) -> list[cst.BaseExpression]:
        return [one.test for one in self._module.enclosing(node) if isinstance(one, cst.If)]

    def _follows_from_a_sample(self, value: cst.BaseExpression) -> bool:
        return not self._of_a_sample.isdisjoint(tree.names(value))

    def _is_looked_up(self, node: cst.CSTNode) -> bool:
        """`if index != self.index: self.index, self.rows = index, load(index)`: what is kept is known by its index."""
        if isinstance(node, cst.AugAssign):
            return False
        compared = [one for test in self._tests(node) for one in tree.walk(test) if isinstance(one, cst.Comparison)]
        return any(
            isinstance(target.operator, _SAME) for one in compared for target in one.comparisons
            if self._follows_from_a_sample(one) and any(map(self._lasts, _expressions(one)))
        )  # fmt: skip


def _expressions(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    return (one for one in tree.walk(node) if isinstance(one, (cst.Attribute, cst.Subscript, cst.Name)))
