"""What ranks would see differently on the disk once rank 0 has begun to write, and would part by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.differing import guarded
from distify_codemods.events import Event, Kind
from distify_codemods.interpreter import files
from distify_codemods.interpreter.frames import Frame
from distify_codemods.libraries import effects, listings
from distify_codemods.origins import Origin
from distify_codemods.rules import disk, turns
from distify_codemods.rules.base import Context
from distify_codemods.rules.download import downloading
from distify_codemods.rules.once import only_writes
from distify_codemods.wholes import asked_in_one

Nodes = Set[cst.CSTNode | None]


def contended(context: Context, told: Callable[[], Nodes]) -> Iterator[tuple[Event, list[Origin]]]:
    """Branches on files that are written meanwhile, each with the questions that they hang on.

    `told`: where rank 0 tells the others what it finds, whatever comes of these.
    """
    meanwhile: _Meanwhile | None = None
    for event in context.facts.of_kind(Kind.TEST, Kind.ASSERT):
        if isinstance(event.node, (cst.If, cst.While, cst.IfExp, cst.Assert)):
            asked = [one for one in files.of_the_disk(event.value)
                     if isinstance(one, Origin) and not asked_in_one(context.facts, one.site)]  # fmt: skip
            if asked:
                meanwhile = meanwhile or _Meanwhile(context, told())
                if meanwhile.contends(event, asked):
                    yield event, asked


class _Meanwhile:
    """What is written, told and left in the run, looked up once for all tests."""

    def __init__(self, context: Context, told: Nodes) -> None:
        self._context = context
        events = context.facts.run.events
        written = [event for event in events if context.writes(event) or event.name in effects.MAKES_FOLDERS]
        left = context.facts.of_kind(Kind.LEAVE)
        self._told = [event for event in events if event.node in told]
        self._written = written
        self._in_turns = turns.parting(context, downloading(context))
        self._around_told = {node for event in self._told for node in _arms(event)}
        self._around = self._around_told | {node for event in written for node in _arms(event)}
        self._around_exits = {node for event in left if event.name != "return" for node in _arms(event)}
        self._around_ends = {node for event in left if event.name in ("return", "exit") for node in _arms(event)}
        self._last_step = max((event.number for event in context.facts.steps), default=-1)
        self._turns = {node for event in context.facts.steps for node in event.turns}
        self._left: dict[cst.CSTNode, set[Frame]] = {}
        for event in left:
            for node in _arms(event):
                self._left.setdefault(node, set()).add(event.here.frame)

    def contends(self, test: Event, asked: list[Origin]) -> bool:
        """Whether ranks may see differently what a test asks for, and then do what all of them have to do."""
        if isinstance(test.node, cst.While):
            return True
        if isinstance(test.node, cst.Assert):
            return self._may_fail_alone(test, asked)
        if isinstance(test.node, cst.If) and only_writes(self._context, test.module, test.node):
            return test.node in self._around_told
        if test.node in self._in_turns or self._ends_by_what_was_written(test, asked):
            return True
        first_step = self._context.facts.first_step
        if any(test.number < one.number < first_step for one in self._written):
            return True
        exits = test.number > first_step and test.node in self._around_exits
        if exits or test.node in self._around or self._is_met_behind(test):
            return True
        sets = any(map(tree.assigned, tree.walk(test.node)))
        changes = guarded(self._context.facts).get((test.node, test.here.frame.context), -1) > test.number
        trains_on = first_step < test.number < self._last_step or not test.turns.isdisjoint(self._turns)
        return (sets or changes) and trains_on and any(not disk.is_as_before(self._context, one) for one in asked)

    def _may_fail_alone(self, test: Event, asked: list[Origin]) -> bool:
        """Whether rank 0 may have made by then what is asserted to be there, or not to be: before it, or before
        all ranks have come so far.
        """
        run, first_step = self._context.facts.run, self._context.facts.first_step
        sites = [one.site for one in asked if one.site is not None]
        questions = [event for site in sites for event in run.at(site) if listings.is_of_the_disk(event.name)]
        made = [
            one for one in self._written
            if one.before(test) or one.number < first_step or not one.turns.isdisjoint(test.turns)
        ]  # fmt: skip
        return any(disk.may_be_below(question, one) for question in questions for one in made)

    def _ends_by_what_was_written(self, test: Event, asked: list[Origin]) -> bool:
        """Whether who leaves under the test never comes to training, and rank 0 may have written what it asks for."""
        ends = test.number < self._context.facts.first_step and test.node in self._around_ends
        return ends and any(not disk.is_as_before(self._context, one) for one in asked)

    def _is_met_behind(self, test: Event) -> bool:
        """Whether who leaves under the test does not come to where rank 0 tells the others something."""
        left = self._left.get(test.node, set())
        return bool(left) and any(
            test.before(event) and any(here.frame in left for here in event.here.up()) for event in self._told
        )


def _arms(event: Event) -> Iterator[cst.CSTNode]:
    """The statements and expressions that it happens in an arm of."""
    return (here.node for here in event.here.up() if here.arm)
