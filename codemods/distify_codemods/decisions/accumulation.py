"""Gradient accumulation: averaged in the backward pass before a step alone, not in those that only add to it.

DistributedDataParallel averages what has been added up, so it may keep still (`no_sync()`, or the flag that this sets,
over forward and backward pass) in all but the last backward pass before anything reads the gradients. Which one that
is must be known before its forward pass: from the test that guards the step, or from the number of the turn.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.backward_passes import sessions
from distify_codemods.decisions.base import Accumulation, Wrap
from distify_codemods.decisions.differing import why_different
from distify_codemods.decisions.expressions import is_bound_before
from distify_codemods.decisions.gradients import Trainee, reads
from distify_codemods.decisions.models import same
from distify_codemods.decisions.names import bound_by
from distify_codemods.decisions.past_the_wrap import training_forwards
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.interpreter.frames import Frame
from distify_codemods.objects import Instance, Wrapped
from distify_codemods.ordered import Ordered
from distify_codemods.records import dataclass
from distify_codemods.values import Value

_PLAIN = (
    cst.Name, cst.Attribute, cst.Integer, cst.BinaryOperation, cst.BooleanOperation, cst.Comparison,
    cst.UnaryOperation, cst.ComparisonTarget, cst.BaseBinaryOp, cst.BaseBooleanOp, cst.BaseCompOp, cst.BaseUnaryOp,
    cst.BaseParenthesizableWhitespace, cst.LeftParen, cst.RightParen, cst.Dot, cst.Float,
)  # fmt: skip


@dataclass(frozen=True)
class _Micro:
    """The loop whose turns add up gradients, and the statement of its body with the first forward pass."""

    loop: Here
    frame: Frame
    first: cst.CSTNode
    body: tuple[cst.CSTNode, ...]


def waits(facts: Facts) -> bool:
    """Whether a step of an optimizer in training may wait for the gradients of several backward passes."""
    passes = [event for event in facts.backwards if facts.in_training(event)]
    steps = [event for event in facts.steps if facts.in_training(event)]
    return any(step.here.conditions() - one.here.conditions() for step in steps for one in passes)


def decide_accumulation(facts: Facts, wraps: tuple[Wrap, ...]) -> tuple[Accumulation, ...]:
    return tuple(
        line
        for model in facts.models
        for wrap in wraps
        if not wrap.unused and any(same(model, one) for one in wrap.models)
        for line in _lines(facts, model)
    )


def _lines(facts: Facts, model: Obj) -> list[Accumulation]:
    """One line for each loop that trains the model; none if there is a loop that would need one and has none."""
    forwards = training_forwards(facts, model)
    found: dict[cst.CSTNode, Accumulation] = {}
    for forward in forwards:
        loops = forward.loops()
        if not loops:
            return []
        if loops[0].node in found:
            continue
        line = _line(facts, model, loops[0], [one for one in forwards if one.inside_of(loops[0])])
        if line is None:
            return []
        found[loops[0].node] = line
    return list(found.values())


def _line(facts: Facts, model: Obj, loop: Here, forwards: list[Event]) -> Accumulation | None:
    backwards = [one.backward for one in sessions(facts, model)]
    inside = [*forwards, *(event for event in backwards if event.inside_of(loop))]
    body = tuple(loop.node.body.body) if isinstance(loop.node, (cst.For, cst.While)) else ()
    places = [_statement_of(event, loop, body) for event in inside]
    micro = _Micro(loop, loop.frame, places[0], body) if places and places[0] is not None else None
    if micro is None or None in places or len(inside) == len(forwards):
        return None
    test = _before_a_step(facts, model, micro, [one for one in places if one is not None])
    target = _wrapped_in(micro, model)
    return Accumulation(target, loop.frame.module, micro.first, test) if test and target else None


def _statement_of(event: Event, loop: Here, body: tuple[cst.CSTNode, ...]) -> cst.CSTNode | None:
    """The statement of a loop's body that an event happens in, in each turn."""
    found: cst.CSTNode | None = None
    for here in event.here.up():
        if here is loop or (here.node is loop.node and here.arm):
            return found
        if here.arm and isinstance(here.node, (cst.If, cst.Match, cst.Try, cst.For, cst.While)) and not here.is_decided:
            return None
        found = next((one for one in body if one is here.node), found)
    return None


def _before_a_step(facts: Facts, model: Obj, micro: _Micro, places: list[cst.CSTNode]) -> str:
    """A condition for the turn to be the last one before gradients are read; empty: none is known."""
    optimizers = [one for one in facts.optimizers if model in one.models]
    trainee = Trainee(Ordered(one.obj for one in optimizers), model.alone)
    readers = [event for event in facts.run.events if reads(event, trainee)]
    steps = [event for event in facts.steps if event in readers]
    within = [event for event in readers if event.inside_of(micro.loop)]
    if not steps:
        return ""
    if not within:
        return _last_turn(facts, micro)
    guards = {_guard_of(event, micro) for event in within}
    (guard, *others) = guards
    if others or guard is None or any(event not in within for event in steps):
        return ""
    between = micro.body[micro.body.index(micro.first) : micro.body.index(guard)]
    if any(one not in between for one in places) or not _holds_before(facts, guard, micro):
        return ""
    return tree.code_of(guard.test)


def _guard_of(event: Event, micro: _Micro) -> cst.If | None:
    """The test in the loop's body under which a reader comes."""
    for here in event.here.up():
        if here.arm == "body" and isinstance(here.node, cst.If) and here.node in micro.body:
            return here.node
    return None


def _holds_before(facts: Facts, guard: cst.If, micro: _Micro) -> bool:
    """Whether a test has the same outcome before the first forward pass, where all that it names is known."""
    if why_different(facts, facts.value(guard.test).sources) or not _is_arithmetic(guard.test):
        return False
    module = micro.frame.module
    stored = {event.name for event in facts.of_kind(Kind.STORE) if event.inside_of(micro.loop)}
    for node in tree.walk(guard.test):
        if isinstance(node, cst.Attribute) and node.attr.value in stored:
            return False
    flow = module.flow(guard)
    names = {node.value for node in flow.reads(guard.test)}
    rebound = names & flow.set_between(micro.first, guard)
    return not rebound and all(is_bound_before(module, micro.first, name) or name == "len" for name in names)


def _is_arithmetic(test: cst.BaseExpression) -> bool:
    """Nothing but numbers, their names and `len(...)`."""
    queue: list[cst.CSTNode] = [test]
    while queue:
        node = queue.pop()
        if isinstance(node, cst.Call):
            is_len = isinstance(node.func, cst.Name) and node.func.value == "len" and len(node.args) == 1
            if not is_len or not tree.is_plain(node.args[0].value):
                return False
        elif isinstance(node, cst.BaseExpression) and not isinstance(node, _PLAIN):
            return False
        else:
            queue += node.children
    return True


def _last_turn(facts: Facts, micro: _Micro) -> str:
    """`number == turns - 1` of `for number in range(turns)`, which runs to its end."""
    loop = micro.loop.node
    if not isinstance(loop, cst.For) or not isinstance(loop.target, cst.Name) or not isinstance(loop.iter, cst.Call):
        return ""
    ranges = isinstance(loop.iter.func, cst.Name) and loop.iter.func.value == "range" and len(loop.iter.args) == 1
    leaves = any(event.inside_of(micro.loop) and event.name != "raise" and event.here.frame is micro.frame
                 for event in facts.of_kind(Kind.LEAVE))  # fmt: skip
    if not ranges or leaves or loop.target.value in {name for one in micro.body for name in bound_by(one)}:
        return ""
    turns = loop.iter.args[0].value
    number = tree.integer(turns)
    if number is not None:
        return f"{loop.target.value} == {number - 1}"
    names = [node.value for node in micro.frame.module.flow(loop).reads(turns)]
    rebound = any(name in bound_by(one) for name in names for one in micro.body)
    return "" if rebound or not tree.is_plain(turns) else f"{loop.target.value} == {tree.code_of(turns)} - 1"


def _wrapped_in(micro: _Micro, model: Obj) -> str:
    """The model in its wrap, as it can be written in the loop."""
    module = micro.frame.module
    for frame in _scopes(micro.frame):
        for name, value in frame.env.items():
            text = next(_texts(name, value, model), "") if name.isidentifier() else ""
            if text and is_bound_before(module, micro.first, name):
                return text
    return ""


def _scopes(frame: Frame) -> Iterator[Frame]:
    scope: Frame | None = frame
    while scope is not None:
        yield scope
        scope = scope.parent


def _texts(name: str, value: Value, model: Obj) -> Iterator[str]:
    if _is_wrapped(value, model):
        yield name
    only = value.single()
    if isinstance(only, Instance):
        for attribute, held in only.attributes.items():
            if attribute.isidentifier() and _is_wrapped(held, model):
                yield f"{name}.{attribute}"


def _is_wrapped(value: Value, model: Obj) -> bool:
    return bool(value.objs) and all(isinstance(one, Wrapped) and one.ours and core(one) is model for one in value.objs)
