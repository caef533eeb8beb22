"""What a training loop prints: a ratio of what it has counted so far, every few batches, or of what one batch counts to
what is that of all ranks, and what stands beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Averaging, Putting
from distify_codemods.decisions.differing import reached_alike, why_different
from distify_codemods.decisions.places import Place, with_what_is_left_early
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.program import Module
from distify_codemods.scale import Scale

_COUNTS = (Scale.SUM, Scale.COUNT)


def shown(facts: Facts) -> Iterator[Averaging]:
    """`hits / seen` every few batches: counts of one rank's samples, divided by one another; and what stands by.

    Where the counts themselves are printed, too, they are added up, and divided as the script does. So are those that
    are divided by a number of the whole batch: of one rank's, the ratio would be as many times too small as there are.
    """
    for event in facts.of_kind(Kind.PRINT):
        if facts.in_training(event) and reached_alike(facts, event) and _is_evaluated_by_all(facts, event):
            counted = _is_now_and_then(event) and any(_is_share_of_counts(facts, node) for node in _ratios(event))
            if counted or next(by_a_whole(facts, event), None) is not None:
                yield from _Line(facts, event).figures()


def _is_evaluated_by_all(facts: Facts, event: Event) -> bool:
    """Not after a `continue` by which some ranks pass over it, nor once for each of a rank's own entries."""
    around = event.module.enclosing(event.node)
    within = itertools.takewhile(lambda one: not isinstance(one, cst.BaseStatement), around)
    several = any(isinstance(one, (cst.BaseComp, cst.Lambda)) for one in within)
    place = with_what_is_left_early(facts).of(event.module, event.node)
    return not several and place is not Place.UNSURE


def by_a_whole(facts: Facts, event: Event) -> Iterator[cst.BinaryOperation]:
    """`correct / batch_size`: sums over a rank's samples, divided by what is the same on all ranks."""
    for node in (*_ratios(event), *_made_before(event)):
        if isinstance(node.operator, (cst.Divide, cst.FloorDivide)) and facts.value(node.left).scale is Scale.SUM:
            own = why_different(facts, facts.value(node.left).sources)
            fixed = facts.value(node.right).scale is Scale.CONST
            if own and fixed and not why_different(facts, facts.value(node.right).sources):
                yield node


def _made_before(event: Event) -> Iterator[cst.BinaryOperation]:
    """`accuracy = correct / batch_size`, of which the name is printed."""
    for name in (node for node in tree.walk(event.node) if isinstance(node, cst.Name)):
        for binding in event.module.flow(name).reaching(name):
            target = event.module.parents.get(binding)
            made = event.module.parents.get(target) if isinstance(target, cst.AssignTarget) else None
            left = [made.value] if isinstance(made, cst.Assign) else []
            while left:  # through products and ratios: of anything else, the sum over the ranks may be another figure
                node = left.pop()
                if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Multiply, cst.Divide)):
                    yield node
                    left += [node.left, node.right]


def _ratios(event: Event) -> Iterator[cst.BinaryOperation]:
    return (node for node in tree.walk(event.node) if isinstance(node, cst.BinaryOperation))


def _is_now_and_then(event: Event) -> bool:
    tests = (here.node.test for here in event.here.up() if isinstance(here.node, cst.If))
    return any(isinstance(node, cst.Modulo) for test in tests for node in tree.walk(test))


class _Line:
    def __init__(self, facts: Facts, event: Event) -> None:
        self.facts = facts
        self.module: Module = event.module
        self.node = event.node
        self.means: list[cst.BaseExpression] = []
        self.counts: list[cst.BaseExpression] = []
        self.others: list[cst.BaseExpression] = []

    def figures(self) -> Iterator[Averaging]:
        self._look_at(self.node)
        why = "shown for the samples of all ranks"
        if self.others:
            why += f"; `{tree.code_of(self.others[0])}` beside it is that of rank 0's"
        counts = list(self.counts)
        for node in self.means:
            parts = self._counted(node) if self.counts else None
            if parts is None:
                yield Averaging(self.module, node, why)
            else:
                counts += parts
        yield from (Averaging(self.module, node, why, how=Putting.SUM) for node in counts)

    def _look_at(self, node: cst.CSTNode) -> None:
        """The means, the counts and what else of one rank's samples is printed."""
        if node in self.facts.run.trial.averaged:
            return  # whatever it is made of
        if not isinstance(node, cst.BaseExpression) or node is self.node or not self._differs(node):
            self._look_inside(node)
        elif self.facts.value(node).scale is Scale.MEAN:
            self.means.append(node)
        elif isinstance(node, tree.PERHAPS):
            self.others.append(node)
        elif self.facts.value(node).scale in _COUNTS and (parts := self._counted(node)):
            self.counts += parts
        elif any(self._is_figure(one) for one in tree.walk(node) if one is not node):
            self._look_inside(node)
        elif self.facts.value(node).scale is not Scale.CONST:
            self.others.append(node)

    def _look_inside(self, node: cst.CSTNode) -> None:
        for child in tree.children(node):
            self._look_at(child)

    def _counted(self, node: cst.CSTNode) -> list[cst.BaseExpression] | None:
        """The smallest counts that a figure is made of; None where something else of one rank goes into it."""
        if isinstance(node, tree.PERHAPS):
            return None
        inside = [self._counted(one) for one in _parts(node)]
        found = [part for one in inside for part in one or ()]
        if not isinstance(node, cst.BaseExpression) or not self._differs(node):
            return None if None in inside else found
        if found and None not in inside:
            return found
        return [node] if self.facts.value(node).scale in _COUNTS else None

    def _is_figure(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.BaseExpression) and self._differs(node)

    def _differs(self, node: cst.BaseExpression) -> bool:
        return bool(why_different(self.facts, self.facts.value(node).sources))


def _parts(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Of a call, what its method is of and what it is given; `self.hits` is one thing."""
    if isinstance(node, cst.Call):
        of = [node.func.value] if isinstance(node.func, cst.Attribute) else []
        return [*of, *node.args]
    return [] if isinstance(node, cst.Attribute) else tree.children(node)


def _is_share_of_counts(facts: Facts, node: cst.BinaryOperation) -> bool:
    counted = any(
        isinstance(inner, cst.BinaryOperation)
        and isinstance(inner.operator, cst.Divide)
        and facts.value(inner.left).scale in _COUNTS
        and facts.value(inner.right).scale in _COUNTS
        for inner in tree.walk(node)
    )
    value = facts.value(node)
    return counted and value.scale in (Scale.MEAN, Scale.REDUCED) and bool(why_different(facts, value.sources))
