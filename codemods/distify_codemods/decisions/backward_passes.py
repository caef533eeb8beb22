"""Which forward passes a backward pass follows, in a run that traces gradients.

DistributedDataParallel averages during the first backward pass after a forward pass, and waits there for each
parameter exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.decisions.past_the_wrap import training_forwards
from distify_codemods.events import Event
from distify_codemods.facts import Facts
from distify_codemods.interpreter.graph import modules_behind
from distify_codemods.records import dataclass


@dataclass(frozen=True)
class Session:
    """A backward pass that reaches a model, and the forward passes since the last one."""

    backward: Event
    forwards: tuple[Event, ...]


def sessions(facts: Facts, model: Obj) -> list[Session]:
    forwards = training_forwards(facts, model)
    backwards = [event for event in facts.backwards if facts.in_training(event) and reaches(facts, event, model)]
    return [Session(backward, tuple(_since(backward, forwards, backwards))) for backward in backwards]


def reaches(facts: Facts, backward: Event, model: Obj) -> bool:
    """Where a loss cannot be followed to any module, and in a program too large to be followed, nothing is sure."""
    behind = modules_behind(backward.receiver)
    return not facts.run.exact or not behind or model in behind


def _since(backward: Event, forwards: list[Event], backwards: list[Event]) -> Iterator[Event]:
    others = [one for one in backwards if one.before(backward) and not excludes(one, backward)]
    for forward in forwards:
        earlier = forward.before(backward) and _repeats_with(forward, backward) and not excludes(forward, backward)
        if earlier and not any(forward.before(one) for one in others):
            yield forward


def excludes(one: Event, other: Event) -> bool:
    """Whether two things happen in different arms of one branch."""
    arms = {(here.node, here.frame.context): here.arm for here in one.here.up() if here.arm and _is_branch(here.node)}
    return any(
        arms.get((here.node, here.frame.context), here.arm) != here.arm
        for here in other.here.up()
        if here.arm and _is_branch(here.node)
    )


def _is_branch(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.If, cst.Match))


def _repeats_with(forward: Event, backward: Event) -> bool:
    """Whether each turn of the loop around a backward pass has the forward pass, too."""
    loops = backward.loops()
    return not loops or any(
        here.node is loops[0].node and here.frame.context == loops[0].frame.context for here in forward.loops()
    )
