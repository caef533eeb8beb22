"""One line in several roles: what of the script's own tells them apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const
from distify_codemods.decisions import modes
from distify_codemods.decisions.base import Blocked
from distify_codemods.decisions.names import bound_in
from distify_codemods.events import Event
from distify_codemods.facts import BatchLoop, Facts
from distify_codemods.inside import core
from distify_codemods.program import Module
from distify_codemods.values import Value

Roles = Sequence[tuple[Event, bool]]


def condition(roles: Roles, rebound: Iterable[str] = ()) -> str | None:
    """A test of one name that holds at the events of the one role and fails at those of the other.

    The events are of one line, in different contexts. None where no name has a literal in each of them.
    """
    events = [event for event, _ in roles]
    names = [name for name in events[0].names if name.isidentifier() and name not in rebound]
    for spelling in (_by_truth, _by_none, _by_literal):
        for name in names:
            if all(name in event.names for event in events):
                text = spelling(
                    events[0].module,
                    name,
                    [event.names[name] for event, role in roles if role],
                    [event.names[name] for event, role in roles if not role],
                )
                if text is not None:
                    return text
    return None


def training_only(facts: Facts, loop: BatchLoop) -> str | None:
    """A condition under which a loop trains; empty: always. None where nothing tells."""
    turns = [one for one in facts.loops if one.node is loop.node]
    if all(one.trains for one in turns):
        return ""
    return condition([(one.event, one.trains) for one in turns], bound_in(loop))


def doubtful(facts: Facts, loop: BatchLoop) -> bool:
    """A loop that may or may not train: its backward pass and its model's mode hang on something unknown."""
    around = loop.event.here.conditions()
    inside = [event for event in facts.backwards if event.inside(loop.event)]
    arms = [event.here.conditions() - around for event in inside]
    if not arms or any(not one for one in arms):
        return False
    tests = [{(node, context) for node, _, context in one} for one in arms]
    if len(arms) > 1 and set.intersection(*tests):
        return False  # in one way or another
    models = {core(obj) for event in loop.forwards for obj in event.receiver.objs}
    found = modes.modes(facts, models)
    last = next((one for one in reversed(found) if one.before(loop.event)), None)
    if all(modes.trains(one) for one in found):
        return False
    return last is None or modes.trains(last) is not True or not last.dominates(loop.event)


def two_purposes(loop: BatchLoop) -> Blocked:
    return Blocked(
        "EVAL01",
        loop.module,
        loop.node,
        "this loop trains in one call and evaluates in another: what is right for one is wrong for the other",
        "train and evaluate in two functions",
    )


def _by_truth(module: Module, name: str, here: list[Value], there: list[Value]) -> str | None:
    if all(value.constant() is True for value in here) and all(value.constant() is False for value in there):
        return name
    if all(value.constant() is False for value in here) and all(value.constant() is True for value in there):
        return f"not {name}"
    return None


def _by_none(module: Module, name: str, here: list[Value], there: list[Value]) -> str | None:
    if all(map(_is_given, here)) and all(value.is_none for value in there):
        return f"{name} is not None"
    if all(value.is_none for value in here) and all(map(_is_given, there)):
        return f"{name} is None"
    return None


def _is_given(value: Value) -> bool:
    """Whether a parameter is an object, and never None."""
    return bool(value.objs) and not value.open and not any(isinstance(obj, Const) for obj in value.objs)


def _by_literal(module: Module, name: str, here: list[Value], there: list[Value]) -> str | None:
    ours, theirs = ({value.constant() for value in values} for values in (here, there))
    if ours & theirs or not all(isinstance(item, str) or item in (0, 1) for item in ours | theirs):
        return None
    if len(ours) == 1:
        return f"{name} == {_spelled(module, ours.pop())}"
    return f"{name} != {_spelled(module, theirs.pop())}" if len(theirs) == 1 else None


def _spelled(module: Module, value: object) -> str:
    """A literal as the file writes it."""
    for node in module.nodes:
        if isinstance(node, cst.SimpleString) and node.evaluated_value == value:
            return tree.code_of(node)
    return repr(value)
