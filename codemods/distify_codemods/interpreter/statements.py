"""What statements do: both arms of a branch are taken and joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Ref
from distify_codemods.events import Kind
from distify_codemods.interpreter import (
    contexts,
    definitions,
    forms,
    imports,
    kinds,
    loops,
    operators,
    pooling,
    rearranged,
    special,
    steady,
    targets,
    ways,
)
from distify_codemods.interpreter.frames import merge
from distify_codemods.libraries import python
from distify_codemods.objects import External
from distify_codemods.ordered import Ordered
from distify_codemods.origins import ON_A_WAY
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: Of tests: what a batch has of one sample.
_OF_SAMPLES = PER_SAMPLE | {Scale.COUPLED}


def _line(machine: Machine, node: cst.SimpleStatementLine) -> bool:
    return machine.block(node.body) if len(node.body) > 1 else machine.statement(node.body[0])


def _branch(machine: Machine, node: cst.If) -> bool:
    test = special.tested(machine, machine.evaluate(node.test), node)
    known = operators.truth(test)
    outcomes = machine.outcomes.setdefault((node, machine.frame.context), set())
    outcomes.add(known)
    machine.event(Kind.TEST, node, value=test)
    env = machine.frame.env
    before, outer, parted, decide = dict(env), machine.control, machine.parted, machine.samples_decide
    machine.parted = parted or (known is None and ways.may_part(test))
    machine.control = outer | forms.decided(test.sources)
    machine.control |= operators.choice(machine, node, test) if known is None else ()
    if known is None and test.scale in _OF_SAMPLES:
        machine.samples_decide = test
    kinds.refine(machine, node.test, True)
    fresh = pooling.fresh(machine)
    falls = _either(machine, node, "body", node.body.body, known, outcomes)
    ends = [pooling.fresh(machine)] if falls else []
    pooling.go_on(machine, fresh)
    after = dict(env) if falls else None
    env.clear()
    env.update(before)
    kinds.refine(machine, node.test, False)
    orelse = node.orelse.body.body if isinstance(node.orelse, cst.Else) else [node.orelse] if node.orelse else []
    other = _either(machine, node, "orelse", orelse, None if known is None else not known, outcomes)
    pooling.go_on(machine, *ends, *([pooling.fresh(machine)] if other else []))
    apart = forms.of_places(test) if falls is not other else ()  # what follows is done by one of the two
    machine.control, machine.parted, machine.samples_decide = outer | apart, parted, decide
    if after is not None:
        _meet(machine, env, after, only_other=not other)
    return falls or other


def _meet(machine: Machine, env: dict[str, Value], other: dict[str, Value], only_other: bool = False) -> None:
    """Where two ways meet, a name that one of them has not bound may be unbound, or an earlier turn's."""
    machine.unbound.add_all(env.keys() ^ other.keys() if not only_other else ())
    merge(env, other, only_other)


def _either(
    machine: Machine,
    node: cst.If,
    arm: str,
    body: Sequence[cst.CSTNode],
    known: bool | None,
    outcomes: set[bool | None],
) -> bool:
    """Takes an arm of a branch, if it is not known not to be."""
    if known is False:
        machine.record.leave_out(machine, node, arm, body)
        return False
    machine.record.taken.add((node, arm))
    steady.forget(machine, node, node.body if arm == "body" else node.orelse)
    return machine.arm(node, arm, body, outcomes) if body else True


def _with_block(machine: Machine, node: cst.With) -> bool:
    grad = machine.grad
    result = contexts.run(machine, node)
    machine.grad = grad
    return result


def _try_block(machine: Machine, node: cst.Try | cst.TryStar) -> bool:
    before, fresh = dict(machine.frame.env), pooling.fresh(machine)
    falls = machine.arm(node, "body", node.body)
    if falls and node.orelse is not None:
        falls = machine.arm(node, "body", node.orelse.body)
    after = dict(machine.frame.env)
    fresh &= pooling.fresh(machine)  # what was set anew before it failed
    ends = [pooling.fresh(machine)] if falls else []
    handlers: Sequence[cst.ExceptHandler | cst.ExceptStarHandler] = node.handlers
    for number, handler in enumerate(handlers):
        machine.frame.env.clear()
        machine.frame.env.update(before)
        _meet(machine, machine.frame.env, after)
        ways.interrupted(machine, before)
        if handler.name is not None:
            machine.assign(handler.name.name, NOTHING)
        parted, machine.parted = machine.parted, True
        pooling.go_on(machine, fresh)
        goes_on = machine.arm(node, f"handler {number}", handler.body)
        machine.parted = parted
        if goes_on:
            merge(after, machine.frame.env, only_other=not falls)
            falls = True
            ends.append(pooling.fresh(machine))
    pooling.go_on(machine, *ends)
    machine.frame.env.clear()
    machine.frame.env.update(after)
    if node.finalbody is not None:
        falls = machine.arm(node, "finally", node.finalbody.body) and falls
    return falls


def _match(machine: Machine, node: cst.Match) -> bool:
    subject = machine.evaluate(node.subject)
    machine.event(Kind.TEST, node, value=subject)
    env, parted = machine.frame.env, machine.parted
    machine.parted = parted or ways.may_part(subject)
    before, after = dict(env), dict(env)
    for number, case in enumerate(node.cases):
        env.clear()
        env.update(before)
        for name in tree.walk(case.pattern):
            if isinstance(name, cst.MatchAs) and name.name is not None:
                machine.assign(name.name, NOTHING)
        with pooling.perhaps(machine):
            falls = machine.arm(node, f"case {number}", case.body)
        if falls:
            _meet(machine, after, env)
    machine.parted = parted
    env.clear()
    env.update(after)
    return True


# ---- simple statements


def _assign(machine: Machine, node: cst.Assign) -> bool:
    value = machine.evaluate(node.value)
    for target in node.targets:
        machine.assign(target.target, targets.counted(machine, target.target, value, node))
    return True


def _annotated(machine: Machine, node: cst.AnnAssign) -> bool:
    if node.value is not None:
        machine.assign(node.target, machine.evaluate(node.value))
    return True


def _return(machine: Machine, node: cst.Return) -> bool:
    value = machine.tainted(machine.evaluate(node.value)) if node.value else _no_value(machine)
    machine.frame.returned.append(value)
    machine.frame.left.append(pooling.fresh(machine))
    machine.frame.parted |= machine.parted
    machine.event(Kind.LEAVE, node, name="return")
    return False


def _no_value(machine: Machine) -> Value:
    """`return` gives None: on which way is all that matters of it."""
    return Value(sources=Ordered([ON_A_WAY])) if machine.parted else NOTHING


def _raise(machine: Machine, node: cst.Raise) -> bool:
    raised = machine.evaluate(node.exc) if node.exc else NOTHING
    ends = any(isinstance(obj, (Ref, External)) and obj.name in python.ENDING for obj in raised.objs)
    machine.event(Kind.LEAVE, node, name="exit" if ends else "raise")
    return False


def _leave_loop(machine: Machine, node: cst.Break | cst.Continue) -> bool:
    machine.frame.exits.append(dict(machine.frame.env))
    machine.frame.parted |= machine.parted
    machine.event(Kind.LEAVE, node, name="break" if isinstance(node, cst.Break) else "continue")
    return False


def _delete(machine: Machine, node: cst.Del) -> bool:
    parts = node.target.elements if isinstance(node.target, cst.Tuple) else ()
    for gone in [part.value for part in parts] or [node.target]:
        if isinstance(gone, (cst.Attribute, cst.Subscript)):
            machine.evaluate(gone)
        if isinstance(gone, cst.Subscript):
            listed = machine.values.get(gone.value, NOTHING)
            forms.resized(machine, listed)
            for obj in listed.objs:
                rearranged.changed(machine, obj, gone.value, gone)
    return True


def _expression(machine: Machine, node: cst.Expr) -> bool:
    machine.evaluate(node.value)
    return True


def _assert(machine: Machine, node: cst.Assert) -> bool:
    machine.event(Kind.ASSERT, node, value=machine.evaluate(node.test))
    return True


def _and_on(handler: Callable[[Machine, Any], object]) -> Callable[[Machine, Any], bool]:
    """Of a statement that control always goes on from."""

    def handled(machine: Machine, node: Any) -> bool:
        handler(machine, node)
        return True

    return handled


HANDLERS: dict[type[cst.CSTNode], Callable[[Machine, Any], bool]] = {
    cst.SimpleStatementLine: _line,
    cst.Expr: _expression,
    cst.Assign: _assign,
    cst.AnnAssign: _annotated,
    cst.AugAssign: _and_on(targets.augment),
    cst.Import: _and_on(imports.execute),
    cst.ImportFrom: _and_on(imports.execute),
    cst.Global: _and_on(
        lambda machine, node: machine.frame.globals_declared.update(item.name.value for item in node.names)
    ),
    cst.Nonlocal: _and_on(
        lambda machine, node: machine.frame.outer_declared.update(item.name.value for item in node.names)
    ),
    cst.Return: _return,
    cst.Raise: _raise,
    cst.Break: _leave_loop,
    cst.Continue: _leave_loop,
    cst.Del: _delete,
    cst.Assert: _assert,
    cst.If: _branch,
    cst.For: loops.loop,
    cst.While: loops.loop,
    cst.With: _with_block,
    cst.Try: _try_block,
    cst.TryStar: _try_block,
    cst.FunctionDef: _and_on(definitions.define),
    cst.ClassDef: _and_on(definitions.define),
    cst.Match: _match,
}
