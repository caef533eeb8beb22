"""Which things no run has both of: they are in two arms of one branch, or behind an arm that leaves the function.

Of a place that is come to once, and of what all ranks decide alike: of a test of what files there are, rank 0 may take
the one arm, and another rank, which asks later, the other.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import CallChain
from distify_codemods.decisions.branches import branches_of
from distify_codemods.decisions.differing import why_different
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import Facts

_LEAVES = ("return", "exit")
#: Behind whose end the script may go on, or which do something as they are left.
_HOLD_UP = (cst.Try, cst.TryStar, cst.With)
_Arm = tuple[cst.CSTNode, str, CallChain]


class Either:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._parting: dict[Here, bool] = {}
        self._leaving = set(self._left())

    def excludes(self, one: Event, other: Event) -> bool:
        """Whether no run has both."""
        first, last = (one, other) if one.before(other) else (other, one)
        return any(self._rules_out(arm, last) for arm in first.here.up() if self._is_one_of_two(arm))

    def _rules_out(self, arm: Here, later: Event) -> bool:
        """Whether what comes later does not happen where an arm was taken."""
        context = arm.frame.context
        around = [here for here in later.here.up() if here.frame.context == context]
        branch = next((here for here in around if here.arm and here.node is arm.node), None)
        if branch is not None:
            return branch.arm != arm.arm
        leaves = _key(arm) in self._leaving and any(here.frame.node is arm.frame.node for here in around)
        return leaves and not any(isinstance(here.node, _HOLD_UP) for here in arm.up() if here.frame is arm.frame)

    def _left(self) -> Iterator[_Arm]:
        """The arms of which a statement of their own leaves the function."""
        for event in self._facts.of_kind(Kind.LEAVE):
            statement = isinstance(event.node, cst.BaseSmallStatement) or isinstance(
                event.module.parents.get(event.node), cst.Expr
            )
            around = next((here for here in event.here.up() if here.arm), None)
            if statement and event.name in _LEAVES and around is not None:
                yield _key(around)

    def _is_one_of_two(self, arm: Here) -> bool:
        """Whether it is an arm of a branch that is come to once, of which all ranks take the same."""
        if arm not in self._parting:
            self._parting[arm] = branches_of(self._facts).is_taken_once(arm) and _is_alike(self._facts, arm.node)
        return self._parting[arm]


def _is_alike(facts: Facts, branch: cst.CSTNode) -> bool:
    assert isinstance(branch, cst.If)
    tested = [facts.value(node).sources for node in tree.walk(branch.test)]
    return not any("file" in one or why_different(facts, one) for one in tested)


def _key(arm: Here) -> _Arm:
    return arm.node, arm.arm, arm.frame.context
