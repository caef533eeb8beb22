"""Loops: the body is taken again when what was known at its head has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Ref
from distify_codemods.events import Here, Kind
from distify_codemods.interpreter import (
    aging,
    cuts,
    files,
    iteration,
    pooling,
    single_rows,
    special,
    state,
    turns,
    ways,
)
from distify_codemods.interpreter.frames import merge
from distify_codemods.libraries import python
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

PASSES_OF_A_LOOP = 3


def loop(machine: Machine, node: cst.For | cst.While) -> bool:
    over = machine.evaluate(node.iter) if isinstance(node, cst.For) else NOTHING
    machine.event(Kind.LOOP, node, value=over)
    items = turns.known(machine, over, node) if isinstance(node, cst.For) else None
    with pooling.perhaps(machine):
        if isinstance(node, cst.For) and items is not None:
            _one_by_one(machine, node, items)
        else:
            _again_and_again(machine, node, over)
        aging.last_turn(machine, node)
    if node.orelse is not None:
        machine.arm(node, "orelse", node.orelse.body)
    return not (isinstance(node, cst.While) and _endless(machine, node))


def _again_and_again(machine: Machine, node: cst.For | cst.While, over: Value) -> None:
    """One turn stands for all; it is taken again until nothing new is known at its head."""
    frame, outer_exits = machine.frame, machine.frame.exits
    frame.exits = []
    iterator = iteration.begin(machine, over, node, node.iter) if isinstance(node, cst.For) else NOTHING
    outer = machine.here
    for _ in range(PASSES_OF_A_LOOP):
        state.next_batch(machine, node)
        aging.next_turn(machine, node)
        single_rows.turn_begins(machine, node)
        before, stores = dict(frame.env), machine.stores
        machine.here = Here(outer, node, frame, "body")
        if isinstance(node, cst.For):
            machine.assign(node.target, cuts.dealt(machine, iteration.element_of(machine, iterator, node), node))
        else:
            test = special.tested(machine, machine.evaluate(node.test), node)
            machine.event(Kind.TEST, node, value=test)
        machine.here = outer
        parted, control = machine.parted, machine.control
        asked = over if isinstance(node, cst.For) else machine.values[node.test]
        machine.parted, machine.control = parted or ways.turns_part(node, asked), control | files.of_the_disk(asked)
        machine.arm(node, "body", node.body)
        machine.parted, machine.control = parted, control
        ended = dict(frame.env)
        for env in (before, *frame.exits):
            merge(frame.env, env)
        carried = any(name in machine.unbound for name in frame.env if name not in before)
        if not carried and machine.stores == stores and all(frame.env[name] == old for name, old in before.items()):
            break
    if _has_a_turn(machine, node):
        frame.env.clear()
        frame.env.update(ended)
        for env in frame.exits:
            merge(frame.env, env)
    frame.exits = outer_exits


def _has_a_turn(machine: Machine, node: cst.For | cst.While) -> bool:
    """Whether it is written that it begins at least once: `for i in range(4)`."""
    call = node.iter if isinstance(node, cst.For) else None
    if not isinstance(call, cst.Call) or len(call.args) != 1 or not isinstance(call.args[0].value, cst.Integer):
        return False
    called = machine.values.get(call.func, NOTHING).single()
    return isinstance(called, Ref) and called.name == python.RANGE and call.args[0].value.evaluated_value > 0


def _one_by_one(machine: Machine, node: cst.For, items: Sequence[Value]) -> None:
    """Over a few known items each turn is a context of its own; names flow from one to the next."""
    frame = machine.frame
    for number, item in enumerate(items):
        aging.next_turn(machine, node)
        machine.frame = frame.turn(node, number)
        machine.frame.exits = []
        machine.assign(node.target, item)
        falls = machine.arm(node, "body", node.body)
        for env in machine.frame.exits:
            merge(frame.env, env, only_other=not falls)
            falls = True
        frame.parted |= machine.frame.parted
        if not falls:
            break
    machine.frame = frame


def _endless(machine: Machine, node: cst.While) -> bool:
    """`while True` without a break never falls through; with one it does."""
    value = machine.evaluate(node.test).constant()
    events = machine.events if value is True and machine.happened["breaks"] else ()
    return value is True and not any(
        event.kind is Kind.LEAVE and event.name == "break" and any(here.node is node for here in event.here.up())
        for event in events
    )
