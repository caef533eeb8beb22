"""Passes over samples that every rank makes whole, and by which all decide: on each the same, whatever draws in them.

Where the ranks draw apart, an augmentation or a dropout of each rank's own would give each another loss of one and the
same evaluation: one lowers its rate, saves, or stops, and the others do not.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.answers import answered_once
from distify_codemods.decisions import entropy, modes, streams
from distify_codemods.decisions.base import Decisions
from distify_codemods.decisions.differing import reached_alike
from distify_codemods.decisions.drawn import Drawn
from distify_codemods.decisions.names import loader_node
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import Facts, loaders_in, loaders_iterated
from distify_codemods.inside import core, made_of
from distify_codemods.libraries import drawing, torch_nn
from distify_codemods.objects import External
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.results import Strategy


@dataclass(frozen=True)
class WholePass:
    """Where a pass begins that would be another one on each rank."""

    module: Module
    node: cst.BaseExpression  # the loader; or the call that takes a batch
    why: str
    alike: bool  # what is drawn is to be drawn alike
    sent: bool  # the batches are to be rank 0's
    is_loader: bool  # which all ranks go through alike
    may_be_told: bool  # it is a call instead, to which all come, and whose result may be rank 0's


def whole_passes(decisions: Decisions) -> Iterator[WholePass]:
    apart = [] if decisions.strategy is Strategy.SHARED else streams.stretches(decisions)
    found: set[cst.CSTNode] = set()
    for event, taken, loaders in _passes(decisions):
        here = any(one.holds(event) for one in apart)
        one = _differing(decisions.facts, event, taken, loaders, here)
        if one is not None and one.node not in found:
            found.add(one.node)
            yield one


def _differing(facts: Facts, event: Event, taken: Event, loaders: list[External], apart: bool) -> WholePass | None:
    over, node = _place(facts, taken, loaders)
    computes = _computes(facts, event)
    if not isinstance(node, cst.BaseExpression) or not (apart or computes):
        return None
    drawn, trains = Drawn(facts, loaders), any(loop.event is event for loop in facts.training_loops)
    beside = _drawn_beside(facts, event) if apart and not drawn.from_streams and not trains else ""
    alike, sent = apart and bool(drawn.from_streams or beside), computes and bool(drawn.library)
    if not alike and not sent:
        return None
    why = beside or "random numbers may go into its samples"
    if sent:
        why = f"`{drawn.library}` draws from random numbers of its own"
    together = reached_alike(facts, taken)
    may_be_told = over is None and together and not beside and facts.training_loaders.isdisjoint(loaders)
    return WholePass(taken.module, node, why, alike, sent, over is not None and together, may_be_told)


def _place(facts: Facts, taken: Event, loaders: list[External]) -> tuple[cst.BaseExpression | None, cst.CSTNode | None]:
    """What is gone through, if it is a loop's, and what of it all ranks have to see alike."""
    over = taken.node.iter if isinstance(taken.node, (cst.For, cst.CompFor)) else None
    return over, loader_node(facts, over) if over is not None and loaders else over or taken.node


def _passes(decisions: Decisions) -> Iterator[tuple[Event, Event, list[External]]]:
    """Of each that does not train: the loop, where its batches are taken, and their loaders, if it has any."""
    facts = decisions.facts
    known: set[cst.CSTNode] = {one.loop.node for one in decisions.reductions}
    known.update(one.loop.node for one in decisions.gatherings)
    if decisions.strategy is Strategy.SHARED:
        known |= {one.node for one in entropy.batches(facts)}
    for loop in facts.loops:
        for draw in loop.draws if loop.node not in known else ():
            of_training = loop.trains and (draw.node is loop.node or not draw.value.objs.isdisjoint(loop.trained))
            if not of_training and draw.node not in known:
                yield loop.event, draw, [*loop.loaders] if not loop.trains else loaders_in(draw.value)
    for event in facts.of_kind(Kind.LOOP):
        if not isinstance(event.node, (cst.For, cst.CompFor)):
            continue
        loaders = loaders_iterated(event.value)
        if isinstance(event.node, cst.CompFor) and loaders:
            yield event, event, loaders
        elif not loaders and _is_evaluation(facts, event):
            yield event, event, []


def _is_evaluation(facts: Facts, loop: Event) -> bool:
    """Of samples that no loader deals out: a model is called in it, and nothing in or around it trains."""
    if facts.in_training(loop) or any(event.inside(loop) for event in (*facts.backwards, *facts.steps)):
        return False
    return _computes(facts, loop) and not any(one.event.inside(loop) for one in facts.loops)


def _computes(facts: Facts, loop: Event) -> bool:
    """Whether a model is called for its batches: then it is more than output, of rank 0 alone."""
    around = _around_forwards(facts)
    if loop.node not in around and (not isinstance(loop.node, cst.CompFor) or around.isdisjoint(_parts(loop))):
        return False
    return next(_within(facts, loop, Kind.FORWARD), None) is not None


@answered_once
def _around_forwards(facts: Facts) -> set[object]:
    """Where models are called, what that happens in, and the calls that lead there."""
    forwards, seen = facts.of_kind(Kind.FORWARD), set[Here]()
    for event in forwards:
        for here in event.here.up():
            if here in seen:
                break
            seen.add(here)
    called = {step for event in forwards for step in event.here.frame.context}
    return {event.node for event in forwards} | {here.node for here in seen} | called


def _parts(loop: Event) -> set[cst.CSTNode]:
    return set(tree.walk(loop.module.parents[loop.node])) if isinstance(loop.node, cst.CompFor) else set()


def _within(facts: Facts, loop: Event, *kinds: Kind) -> Iterator[Event]:
    """What happens in the turns of a loop, or of a comprehension."""
    parts = _parts(loop)
    for event in facts.of_kind(*kinds):
        if event.inside(loop) or event.node in parts or not parts.isdisjoint(event.here.frame.context):
            yield event


def _drawn_beside(facts: Facts, loop: Event) -> str:
    """What draws while a loop goes through its batches, beside what makes the samples."""
    calls = list(_within(facts, loop, Kind.CALL, Kind.METHOD))
    if any(streams.draws_by_itself(event) or _drops_always(event) for event in calls):
        return "random numbers are drawn while it goes on"
    forwards = list(_within(facts, loop, Kind.FORWARD))
    models = {core(obj) for event in forwards for obj in event.receiver.objs} & set(facts.models)
    last = next((one for one in reversed(modes.modes(facts, models)) if one.before(loop)), None)
    if not models or (last is not None and modes.trains(last) is False and last.dominates(loop)):
        return ""
    names = [obj.name for event in forwards for obj in map(core, event.receiver.objs) if isinstance(obj, External)]
    parts = [obj for value in made_of(event.receiver for event in forwards) for obj in value.objs]
    names += [obj.name for obj in parts if isinstance(obj, External) and obj.name.startswith(torch_nn.OWN)]
    names += [event.name for event in calls if event.name.startswith(torch_nn.OWN)]
    return "its model may draw, and is not seen to be in eval mode" if any(map(drawing.drops, names)) else ""


def _drops_always(event: Event) -> bool:
    """`F.dropout(x)`, whatever mode its model is in."""
    return drawing.is_dropout(event.name) and event.arguments.get("training", 2) is None
