"""What a constant of the script turns off: `SAVE = False`, `if SAVE:`. People turn it on again.

A run takes the arm that the constant leaves, so that what follows is known. Where the other arm is not taken in any
context, it is run at the very end, in the environment in which it was left out: by then everything has been decided,
and its events are for the rules alone, which edit there what they edit elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.events import Event, Here
from distify_codemods.interpreter import operators
from distify_codemods.ordered import Ordered
from distify_codemods.records import dataclass
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.frames import Frame
    from distify_codemods.interpreter.machine import Machine
    from distify_codemods.interpreter.runs import Run
    from distify_codemods.program import Module

_OPERANDS = (cst.Name, cst.Attribute, cst.Subscript, cst.BaseNumber, cst.BaseString)
_MOST_ARMS = 200

#: Where among the events: before the one with this number, and among those of arms within arms.
Order = tuple[float, ...]


@dataclass(eq=False)
class LeftOut:
    """An arm that was not taken, and all that it would have run in."""

    node: cst.If
    arm: str
    body: Sequence[cst.CSTNode]
    frame: Frame
    here: Here
    env: dict[str, Value]
    grad: bool
    control: Ordered[Obj | str]
    order: Order


class Record:
    """Which arms were taken, and which were not."""

    def __init__(self) -> None:
        self.taken: set[tuple[cst.CSTNode, str]] = set()
        self.left_out: dict[tuple[cst.CSTNode, str, object], LeftOut] = {}
        self.turned_off: set[tuple[cst.CSTNode, str]] = set()  # those that were run at the end
        self.order: Order = ()
        self.result: Run | None = None
        self.brought: dict[cst.If, list[Module]] = {}  # what is imported in no other place than such an arm

    def leave_out(self, machine: Machine, node: cst.If, arm: str, body: Sequence[cst.CSTNode]) -> None:
        if (node, arm) in self.taken or not body:
            return
        if operators.truth(_value(machine, node.test)) is None or not is_a_switch(machine, node.test):
            return
        key = (node, arm, machine.frame.context)
        known = self.left_out.get(key)
        order = known.order if known is not None else (*self.order, len(machine.events) - 0.5)
        self.left_out[key] = LeftOut(
            node, arm, body, machine.frame, machine.here, dict(machine.frame.env), machine.grad, machine.control, order
        )


def is_a_switch(machine: Machine, test: cst.BaseExpression) -> bool:
    """Whether what decides a test are constants of the script, and not what it is run as or what things are."""
    if isinstance(test, cst.BooleanOperation):
        sides = (test.left, test.right)
        return any(operators.truth(_value(machine, one)) is not None and is_a_switch(machine, one) for one in sides)
    if isinstance(test, cst.UnaryOperation):
        return is_a_switch(machine, test.expression)
    if isinstance(test, cst.Comparison):
        return all(_is_constant(machine, one) for one in (test.left, *(one.comparator for one in test.comparisons)))
    return _is_constant(machine, test)


def _is_constant(machine: Machine, node: cst.BaseExpression) -> bool:
    if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        return all(_is_constant(machine, one.value) for one in node.elements)
    if not isinstance(node, _OPERANDS) or (isinstance(node, cst.Name) and node.value == "__name__"):
        return False
    return _value(machine, node).are_literals


def _value(machine: Machine, node: cst.BaseExpression) -> Value:
    return machine.values.get(node, NOTHING)


def with_unused(run: Run) -> Run:
    """The run with what its constants turn off: more events, and values of expressions that have none yet."""
    record = run.machine.record
    if record.result is None:
        record.result = _extended(run)
    return record.result


def _extended(run: Run) -> Run:
    machine = run.machine
    known = set(machine.values)
    events = dict[Order, Event]({(number,): event for number, event in enumerate(run.events)})
    nodes: set[cst.CSTNode] = set()
    done: set[object] = set()
    while waiting := [
        one for key, one in machine.record.left_out.items() if key not in done and _is_unused(machine, one)
    ]:
        done |= machine.record.left_out.keys()
        for one in waiting[:_MOST_ARMS]:
            machine.record.turned_off.add((one.node, one.arm))
            for number, event in enumerate(_run_arm(machine, one)):
                event.unused = True
                nodes.add(event.node)
                events[(*one.order, number)] = event
            nodes |= {node for part in one.body for node in tree.walk(part)}
    for number, order in enumerate(sorted(events)):
        events[order].number = number
    used = {event.node for event in run.events}
    unused = frozenset((nodes | (set(machine.values) - known)) - used)
    return replace(run, events=[events[order] for order in sorted(events)], unused=unused)


def _is_unused(machine: Machine, one: LeftOut) -> bool:
    return (one.node, one.arm) not in machine.record.taken


def _run_arm(machine: Machine, one: LeftOut) -> Iterator[Event]:
    """What happens in the arm. Values that are known already stay what they are."""
    known, complete, outer, reached = machine.values.copy(), machine.complete, one.frame.env, set(machine.globals)
    machine.events, machine.draws, machine.record.order = [], [], one.order
    machine.frame, machine.here, machine.grad, machine.control = one.frame, one.here, one.grad, one.control
    one.frame.env, machine.parted = dict(one.env), False
    machine.followed = {}
    machine.arm(one.node, one.arm, one.body, frozenset({None}))
    machine.followed = None
    brought = [module for module in machine.globals if module not in reached]
    machine.record.brought.setdefault(one.node, []).extend(brought)
    one.frame.env = outer
    machine.values.update(known)
    machine.complete = complete
    yield from machine.events
