"""Branches of which a run takes one arm, and no run another: those that are come to once.

In a loop, a comprehension or a function that is called for each item, one turn takes the one arm and the next the
other. What calls a function is not seen where a library does.
"""

from __future__ import annotations

import libcst as cst

from distify_codemods.answers import answered_once
from distify_codemods.callables import called
from distify_codemods.events import Event, Here
from distify_codemods.facts import Facts
from distify_codemods.interpreter.frames import CALLED


@answered_once
def branches_of(facts: Facts) -> Branches:
    return Branches(facts)


class Branches:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._taken_once: dict[Here, bool] = {}

    def is_taken_once(self, arm: Here) -> bool:
        """Whether it is an arm of a branch that is come to once."""
        if arm not in self._taken_once:
            self._taken_once[arm] = arm.is_of_one_branch and all(
                _is_called_once(self._facts, here) for here in arm.up() if here.arm == CALLED
            )
        return self._taken_once[arm]

    def excludes(self, one: Event, other: Event) -> bool:
        """Whether no run has both: they are in two arms of one branch."""
        arms = {(here.node, here.frame.context): here.arm for here in one.here.up() if here.is_of_one_branch}
        return any(
            arms.get((here.node, here.frame.context), here.arm) != here.arm and self.is_taken_once(here)
            for here in (other.here.up() if arms else ())
            if here.is_of_one_branch
        )


def _is_called_once(facts: Facts, inside: Here) -> bool:
    """Whether it is seen that a statement calls a function, once whenever it is reached; files are run once."""
    frame, where = inside.frame, inside.parent
    if where is None or not isinstance(frame.node, (cst.FunctionDef, cst.Lambda)):
        return True
    call = next((one for one in reversed(frame.context) if isinstance(one, cst.Call)), None)
    module = where.frame.module
    if call is None or call not in module.parents or frame.node not in called(facts.value(call.func).objs):
        return False
    for around in module.enclosing(call):
        if isinstance(around, (cst.BaseComp, cst.While)):
            return False
        if isinstance(around, (cst.BaseStatement, cst.Lambda)):
            break
    return True
