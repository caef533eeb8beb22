"""What happens inside of forward passes: ranks compute parts of them, and must not wait for each other there."""

from __future__ import annotations

import libcst as cst

from distify_codemods.answers import answered_once
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.program import Module


@answered_once
def _calls(facts: Facts) -> frozenset[cst.CSTNode]:
    return frozenset(event.node for event in facts.of_kind(Kind.FORWARD))


def holds(facts: Facts, event: Event) -> bool:
    """Whether something happens in a model's own code while it is called."""
    return not _calls(facts).isdisjoint(event.here.frame.context)


def above(facts: Facts, event: Event, place: tuple[Module, cst.CSTNode]) -> tuple[Module, cst.CSTNode]:
    """The place, or the statement that calls the outermost model in which it is."""
    if holds(facts, event):
        for here in event.here.up():
            statement = isinstance(here.node, (cst.BaseSmallStatement, cst.BaseStatement)) and not here.arm
            if statement and _calls(facts).isdisjoint(here.frame.context):
                return here.frame.module, here.node
    return place
