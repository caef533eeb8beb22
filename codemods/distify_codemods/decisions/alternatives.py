"""Loaders of which a run of the program makes one, never two: by a branch, or by what a name stands for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import libcst as cst

from distify_codemods.events import Event
from distify_codemods.facts import Loader


def one_of(loaders: Sequence[Loader]) -> bool:
    return all(_exclude(one.made, other.made) for one, other in combinations(loaders, 2))


def _exclude(one: Event, other: Event) -> bool:
    if one.loops() or other.loops():
        return False  # one in one turn, the other in the next
    return _in_other_arm(one, other) or _in_other_function(one, other)


def _in_other_arm(one: Event, other: Event) -> bool:
    ours, theirs = (
        {
            (here.node, here.frame.context): here.arm
            for here in event.here.up()
            if isinstance(here.node, cst.If) and here.arm
        }
        for event in (one, other)
    )
    return any(theirs.get(branch, arm) != arm for branch, arm in ours.items())


def _in_other_function(one: Event, other: Event) -> bool:
    """The same call, of whatever it is that is called: `getattr(module, name)(...)`."""
    ours, theirs = ({here.frame.context: here.frame.node for here in event.here.up()} for event in (one, other))
    return any(theirs.get(context, node) is not node for context, node in ours.items() if context)
