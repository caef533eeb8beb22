"""Batches that are cut by hand: where each rank takes its share of them, tried out before it is believed.

Every rank draws, cuts and folds the whole batch, alike; then it keeps its own samples of it. The place is the first
assignment on the way to the training forward that holds batches of training and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from distify_codemods.decisions.base import Blocked, Slicing
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, infer
from distify_codemods.interpreter import Cutting, run
from distify_codemods.interpreter.cuts import OUTPUT, key_of
from distify_codemods.program import Module
from distify_codemods.values import (
    NOTHING,
    Const,
    Cut,
    External,
    Mapping,
    Method,
    Obj,
    Scale,
    Sequence,
    Share,
    Value,
    core,
)

MOST_PLACES = 12


@dataclass(frozen=True)
class _Layout:
    """What an expression holds: batches, all with their samples along one dimension."""

    dimension: int
    cuts: frozenset[Cut]


def decide_cuts(facts: Facts) -> tuple[Facts, tuple[Slicing, ...], list[Blocked]]:
    """The facts of a program that cuts its batches by hand, once each rank takes its share of them."""
    if facts.training_loops or not facts.backwards:
        return facts, (), []
    seen = _run(facts, Cutting())
    cuts = _trained_on(seen)
    if not cuts:
        return facts, (), []
    played = _environment(facts)
    if played is not None:
        return facts, (), [_plays(played)]
    sizes = frozenset(key_of(size) for cut in cuts for size in cut.sizes)
    if sizes:
        seen = _run(facts, Cutting(sizes))
    slicings: tuple[Slicing, ...] = ()
    while len(slicings) < MOST_PLACES:
        cuts = _trained_on(seen)
        if not cuts:
            return seen, slicings, []
        slicing = _next_place(seen, cuts, slicings)
        if slicing is None:
            return facts, (), [_nowhere(facts, next(iter(cuts)))]
        slicings += (slicing,)
        seen = _run(facts, Cutting(sizes, frozenset(one.node for one in slicings)))
    return facts, (), [_nowhere(facts, next(iter(cuts)))]


def _environment(facts: Facts) -> Event | None:
    """A step of something that is played: of a library's object that is reset and stepped with an action."""
    steps: dict[Obj, Event] = {}
    resets: set[Obj] = set()
    for event in facts.of_kind(Kind.METHOD):
        others = [obj for obj in event.receiver.objs if isinstance(obj, (External, Method))]
        if event.name == "reset":
            resets.update(others)
        elif event.name == "step" and event.arguments.positional:
            steps.update(dict.fromkeys(others, event))
    return next((event for obj, event in steps.items() if obj in resets), None)


def _plays(step: Event) -> Blocked:
    return Blocked(
        "DATA04",
        step.module,
        step.node,
        "the samples come from an environment that each rank would play by itself: there is no data to share out",
        "distribute it with a library for reinforcement learning, or run one copy per seed",
    )


def _run(facts: Facts, cutting: Cutting) -> Facts:
    return infer(facts.program, run(facts.program, cutting=cutting))


def _trained_on(facts: Facts) -> set[Cut]:
    """The whole batches that a training step still depends on."""
    values = [event.receiver for event in facts.backwards]
    loops = [event for event in facts.of_kind(Kind.LOOP) if any(one.inside(event) for one in facts.backwards)]
    models = set(facts.models)
    for event in facts.of_kind(Kind.FORWARD):
        trains = event.grad and any(core(obj) in models for obj in event.receiver.objs)
        if trains and any(event.inside(loop) for loop in loops) and _leads_to(event, facts):
            values += event.arguments.all()
    return {source for value in values for source in value.sources if isinstance(source, Cut)}


def _leads_to(event: Event, facts: Facts) -> bool:
    """Whether a forward pass comes before a backward pass in the same turn of the loop around that."""
    return any(
        event.before(backward) and any(event.inside_of(around) for around in backward.loops()[:1])
        for backward in facts.backwards
    )


def _next_place(facts: Facts, cuts: set[Cut], taken: tuple[Slicing, ...]) -> Slicing | None:
    """The first assignment that holds whole batches of training; else the expression that makes one."""
    known = {one.node for one in taken}
    frames = {here.frame.node for backward in facts.backwards for here in backward.here.up()}
    models = _inside_models(facts)
    later: Slicing | None = None
    for node, value in facts.run.values.items():
        if node in known or not isinstance(node, cst.BaseExpression):
            continue
        layout = _layout(value)
        if layout is None or not layout.cuts & cuts or not layout.cuts <= cuts:
            continue
        module = next((module for module in facts.run.frames if node in module.parents), None)
        if module is None or _function_of(module, node) in models:
            continue
        found = Slicing(module, node, layout.dimension, "each rank takes its own samples of the batch")
        if _is_assigned(module, node):
            if _function_of(module, node) in frames:
                return found
            later = later or found
        elif any(cut.site is node for cut in cuts):
            later = later or found
    return later


def _inside_models(facts: Facts) -> set[cst.CSTNode]:
    """The functions that forward passes of trained models run."""
    known = set(facts.models)
    calls = {
        event.node for event in facts.of_kind(Kind.FORWARD) if any(core(obj) in known for obj in event.receiver.objs)
    }
    return {event.here.frame.node for event in facts.run.events if calls & set(event.here.frame.context)}


def _is_assigned(module: Module, node: cst.CSTNode) -> bool:
    parent = module.parents.get(node)
    return isinstance(parent, (cst.Assign, cst.AnnAssign)) and parent.value is node


def _function_of(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    return next(one for one in module.enclosing(node) if isinstance(one, (cst.FunctionDef, cst.Lambda, cst.Module)))


def _layout(value: Value) -> _Layout | None:
    """None where something is no whole batch, or batches lie along different dimensions."""
    parts = list(_parts(value))
    dimensions = {Scale.SAMPLES: 0, Scale.TURNED: 1}
    found = {dimensions.get(part.scale) for part in parts}
    cuts = [frozenset(source for source in part.sources if isinstance(source, Cut)) for part in parts]
    mixed = any(isinstance(source, Share) or source == OUTPUT for part in parts for source in part.sources)
    if len(found) != 1 or None in found or mixed or not all(cuts):
        return None
    only = found.pop()
    assert only is not None
    if only == 0 and any(isinstance(obj.site, cst.List) for obj in value.objs if isinstance(obj, Sequence)):
        return None  # a list is taken for a list of samples
    return _Layout(only, frozenset().union(*cuts))


def _parts(value: Value) -> Iterator[Value]:
    """The value, or what is in its tuples, lists and dictionaries, without literals."""
    held = [obj for obj in value.objs if isinstance(obj, (Sequence, Mapping))]
    if not held or any(isinstance(obj, Sequence) and obj.per_sample for obj in held):
        if not (value.objs and all(isinstance(obj, Const) for obj in value.objs)):
            yield value
        return
    for obj in held:
        if isinstance(obj, Mapping):
            yield from _parts(obj.any())
        elif obj.items is None:
            yield NOTHING  # of unknown length: a list of batches, a generator
        else:
            for item in obj.items:
                yield from _parts(item)


def _nowhere(facts: Facts, cut: Cut) -> Blocked:
    assert cut.module is not None
    assert cut.site is not None
    return Blocked(
        "DATA04",
        cut.module,
        cut.site,
        "a batch of training is cut here by hand, and no place was found where each rank could take its share of it",
        "put the data into a Dataset and loop over a DataLoader, or take the share by hand: rt.shard_batch(batch)",
    )
