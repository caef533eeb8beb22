"""Checks that end the run: `assert`, and tests with nothing but an error behind them.

A rank makes them of its own share. That is the same where the whole batch fails exactly if some share does, as for a
loss that is no number or a label out of range. A share without a labelled sample says nothing of its batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Ref
from distify_codemods.decisions import form_tests
from distify_codemods.decisions.differing import differs, of_batches, why_different
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.libraries import truths
from distify_codemods.scale import PER_SAMPLE, Scale

_GREATER = (cst.GreaterThan, cst.GreaterThanEqual)
_LESS = (cst.LessThan, cst.LessThanEqual)
#: A number of these is no number exactly if it is none on some rank.
_ADDED_UP = PER_SAMPLE | {Scale.CONST, Scale.MEAN, Scale.SUM, Scale.REDUCED}


def of_shares(facts: Facts) -> Iterator[Event]:
    """Those of training that a rank's share may fail where its batch does not."""
    for event in facts.of_kind(Kind.TEST, Kind.ASSERT):
        if facts.in_training(event) and differs(facts, event) and of_batches(event.value.sources):
            checked = _Check(facts)
            if any(not checked.is_of_some(test, fails) for test, fails in _failing(event.node)):
                yield event


def _failing(node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """What is asked, and which answer ends the run."""
    if isinstance(node, cst.Assert):
        yield node.test, False
    elif isinstance(node, cst.If):
        if _raises(node.body):
            yield node.test, True
        if isinstance(node.orelse, cst.Else) and _raises(node.orelse.body):
            yield node.test, False


def _raises(body: cst.BaseSuite) -> bool:
    last = tree.small_statements(body)[-1:]
    return bool(last) and isinstance(last[0], cst.Raise)


class _Check:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def is_of_some(self, node: cst.BaseExpression, answer: bool) -> bool:
        """Whether a batch gives this answer if, and only if, some share of it does."""
        if not why_different(self.facts, self.facts.value(node).sources) or form_tests.asks_form(self.facts, node):
            return True
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            return self.is_of_some(node.expression, not answer)
        if isinstance(node, cst.BooleanOperation):
            sides = [self.is_of_some(one, answer) for one in (node.left, node.right)]
            alike = [not why_different(self.facts, self.facts.value(one).sources) for one in (node.left, node.right)]
            either = isinstance(node.operator, cst.Or) is answer
            return all(sides) and (either or any(alike))
        if isinstance(node, cst.Comparison):
            return self._compares(node, answer)
        return self._calls(node, answer) if isinstance(node, cst.Call) else False

    def _compares(self, node: cst.Comparison, answer: bool) -> bool:
        if len(node.comparisons) != 1:
            return False
        one, operator, other = node.left, node.comparisons[0].operator, node.comparisons[0].comparator
        if one.deep_equals(other):  # `loss != loss`
            return isinstance(operator, cst.NotEqual) is answer and self.facts.value(one).scale in _ADDED_UP
        if all(self.facts.value(side).scale is Scale.COUNT for side in (one, other)):
            return True  # `len(x) == len(y)`
        if not why_different(self.facts, self.facts.value(one).sources):  # `0 <= x.min()`
            one, other = other, one
            operator = _TURNED[type(operator)]() if type(operator) in _TURNED else operator
        if why_different(self.facts, self.facts.value(other).sources):
            return False
        bound = self.facts.value(other).constant()
        if self.facts.value(one).scale is Scale.COUNT:
            return bound == 0
        if (name := self._extreme(one)) is not None:
            above = isinstance(operator, _GREATER)
            return isinstance(operator, (*_GREATER, *_LESS)) and (above is (name == "max")) is answer
        none = (isinstance(operator, (cst.Equal, cst.LessThanEqual)) and bound == 0) or (
            isinstance(operator, cst.LessThan) and bound == 1
        )
        some = (isinstance(operator, (cst.NotEqual, cst.GreaterThan)) and bound == 0) or (
            isinstance(operator, cst.GreaterThanEqual) and bound == 1
        )
        return (some if answer else none) and self._counts(one)

    def _extreme(self, node: cst.BaseExpression) -> str | None:
        """`x.max()`, `torch.max(x)`: of all entries."""
        name, of, given = self._called(self._plain(node))
        own = of is not None and not given and self.facts.value(of).scale in PER_SAMPLE
        return name if name in ("max", "min") and own else None

    def _counts(self, node: cst.BaseExpression) -> bool:
        """`(y < 0).sum()`, of a mask."""
        name, of, given = self._called(self._plain(node))
        return name == "sum" and of is not None and not given and self._is_mask(of)

    def _is_mask(self, node: cst.BaseExpression) -> bool:
        value = self.facts.value(node)
        return value.scale in PER_SAMPLE and (value.mask or self._called(node)[0] in truths.NO_NUMBERS)

    def _plain(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """`x.max()` of `x.max().item()`, `float(x.max())`."""
        while True:
            name, of, _ = self._called(node)
            if name not in truths.PASSING or of is None:
                return node
            node = of

    def _called(self, node: cst.BaseExpression) -> tuple[str, cst.BaseExpression | None, int]:
        """The name of what is called, what it is called of or given first, and how much else it is given."""
        if not isinstance(node, cst.Call):
            return "", None, 0
        function = self.facts.value(node.func).single()
        if isinstance(function, Ref):
            first = node.args[0].value if node.args else None
            return function.name.rpartition(".")[2], first, len(node.args) - 1
        if isinstance(node.func, cst.Attribute):
            return node.func.attr.value, node.func.value, len(node.args)
        return "", None, 0

    def _calls(self, node: cst.Call, answer: bool) -> bool:
        name, of, _ = self._called(node)
        if of is None:
            return False
        scale = self.facts.value(of).scale
        if name in truths.PASSING:
            return self.is_of_some(of, answer)
        if name in truths.NO_NUMBERS:
            return answer and scale in _ADDED_UP
        if name == "any":
            return answer and (scale in PER_SAMPLE or self.is_of_some(of, True))
        if name == "sum":
            return answer and self._is_mask(of)
        if name == truths.FINITE:
            return not answer and scale in _ADDED_UP
        if name == "all":
            return not answer and (scale in PER_SAMPLE or self.is_of_some(of, False))
        compared = [of, *(one.value for one in node.args)]
        return name in truths.ALIKE and not answer and all(map(self._is_of_entries, compared))

    def _is_of_entries(self, node: cst.BaseExpression) -> bool:
        return self.facts.value(node).scale in (*PER_SAMPLE, Scale.CONST)


_TURNED: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThan: cst.GreaterThan, cst.GreaterThan: cst.LessThan,
    cst.LessThanEqual: cst.GreaterThanEqual, cst.GreaterThanEqual: cst.LessThanEqual,
}  # fmt: skip
