"""What a data set, or a transform, keeps of the samples that it is asked for: a count, the last sample, a place in a
stream.

Each rank asks for its own samples. What is kept of them is another one on each, and so are samples that follow from it.
What is kept for an index (a cache), or made once (an open file), is the same whoever asks.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.control_flow import parameters_of
from distify_codemods.decisions.base import Link
from distify_codemods.decisions.made_for_samples import functions_of, makers
from distify_codemods.decisions.of_before import ASSIGNMENTS, Assignment, may_be_of_before, names_of_others, reads_of
from distify_codemods.facts import Facts
from distify_codemods.naming import brief
from distify_codemods.program import Module

_ADDING = frozenset("append appendleft extend add insert update".split())
_TAKING = frozenset("pop popleft".split())
_SAME = (cst.Equal, cst.NotEqual, cst.In, cst.NotIn)


def links(facts: Facts) -> Iterator[Link]:
    functions = dict.fromkeys(function for obj in makers(facts) for function in functions_of(obj))
    for function in functions:
        if function.module is not None and isinstance(function.node, cst.FunctionDef):
            for node in _Keeping(function.module, function.node).found():
                yield Link(
                    function.module, node,
                    f"`{brief(node)}` keeps something of the samples that are asked for, which are a rank's own",
                    "what follows from a sample's index is the same whoever asks for it",
                )  # fmt: skip


class _Keeping:
    """In one function, which is called for a sample."""

    def __init__(self, module: Module, function: cst.FunctionDef) -> None:
        self._module, self._function = module, function
        self._given = [one.name.value for one in parameters_of(function)]
        self._own = self._given[0] if self._given else ""
        self._others = names_of_others(function)
        self._of_a_sample = set(self._given[1:])
        for node in tree.walk(function.body):
            if isinstance(node, ASSIGNMENTS) and node.value is not None and self._follows_from_a_sample(node.value):
                self._of_a_sample.update(name for one in tree.targets(node) for name in tree.target_names(one))

    def found(self) -> Iterator[cst.CSTNode]:
        for node in tree.walk(self._function.body):
            if isinstance(node, ASSIGNMENTS) and node.value is not None:
                leaves = [leaf for one in tree.targets(node) for leaf in tree.leaves(one)]
                kept = any(self._lasts(leaf) and self._is_kept(node, leaf) for leaf in leaves)
            else:
                kept = isinstance(node, cst.Call) and self._changes(node)
            if kept and not self._is_looked_up(node):
                yield node

    def _lasts(self, place: cst.BaseExpression) -> bool:
        """`self.count`, `self.counts[i]`, a name of the module."""
        first = list(tree.inwards(place))[-1]
        name = first.value if isinstance(first, cst.Name) else ""
        return name in self._others or (name == self._own and first is not place)

    def _is_kept(self, node: Assignment, place: cst.BaseExpression) -> bool:
        if not may_be_of_before(self._module, node, place):
            return False
        if isinstance(node, cst.AugAssign) or any(reads_of(self._module, place, node.value or node)):
            return True
        if isinstance(place, cst.Subscript) or node.value is None or not self._follows_from_a_sample(node.value):
            return False
        return any(
            may_be_of_before(self._module, one, place) for one in reads_of(self._module, place, self._function)
        )  # fmt: skip

    def _changes(self, call: cst.Call) -> bool:
        """`self.seen.append(i)`, `self.order.pop()`, `next(self.stream)`"""
        if isinstance(call.func, cst.Name) and call.func.value == "next" and call.args:
            holder = call.args[0].value
            return self._lasts(holder) and may_be_of_before(self._module, call, holder)
        if not isinstance(call.func, cst.Attribute):
            return False
        holder, name = call.func.value, call.func.attr.value
        adds = name in _ADDING and any(self._follows_from_a_sample(one.value) for one in call.args)
        return (adds or name in _TAKING) and self._lasts(holder) and may_be_of_before(self._module, call, holder)

    def _follows_from_a_sample(self, value: cst.BaseExpression) -> bool:
        return not self._of_a_sample.isdisjoint(tree.names(value))

    def _is_looked_up(self, node: cst.CSTNode) -> bool:
        """`if index != self.index: self.index, self.rows = index, load(index)`: what is kept is known by its index."""
        tests = [one.test for one in self._module.enclosing(node) if isinstance(one, cst.If)]
        compared = [one for test in tests for one in tree.walk(test) if isinstance(one, cst.Comparison)]
        return any(
            isinstance(target.operator, _SAME) for one in compared for target in one.comparisons
            if self._follows_from_a_sample(one) and any(map(self._lasts, _expressions(one)))
        )  # fmt: skip


def _expressions(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    return (one for one in tree.walk(node) if isinstance(one, (cst.Attribute, cst.Subscript, cst.Name)))
