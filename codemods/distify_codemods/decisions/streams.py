"""Where the ranks draw random numbers apart, and where they have to draw alike.

Around each training loop there is a stretch in which every rank has a stream of its own. Before it and after it all
draw alike: models, splits, folds. Inside of it, seeds that the script sets would make the ranks alike again, and some
draws choose samples for all.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import CallChain, Turn
from distify_codemods.decisions import put_together
from distify_codemods.decisions.base import Decisions, chain
from distify_codemods.decisions.caught import may_be_caught
from distify_codemods.decisions.past_the_wrap import is_module
from distify_codemods.decisions.several import around, loops_around
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core, values_in
from distify_codemods.interpreter.frames import Frame
from distify_codemods.libraries import drawing, seeding
from distify_codemods.objects import Parameters
from distify_codemods.origins import CHANCE
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING


@dataclass(frozen=True)
class Stretch:
    """A loop in which the ranks draw apart: the outermost that trains and makes no model, weights or data anew."""

    module: Module
    node: cst.CSTNode
    frame: Frame
    loop: Event  # of training

    def holds(self, event: Event) -> bool:
        return any(
            here.node is self.node and here.arm == "body" and here.parent_context == self.frame.context
            for here in event.here.up()
        )

    def reaches(self, event: Event) -> bool:
        """Whether it happens in the course of the loop's statement: in its turns, or in what it goes through."""
        return any(here.node is self.node and here.frame.context == self.frame.context for here in event.here.up())


def stretches(decisions: Decisions) -> list[Stretch]:
    """One for each place; more than one where a place is reached in several ways."""
    building = _building(decisions) | _making_data(decisions.facts) | _drawing_weights(decisions.facts)
    found: dict[tuple[cst.CSTNode, CallChain], Stretch] = {}
    for loop in decisions.facts.training_loops:
        for frame, node in chain(loop.event):
            if isinstance(node, (cst.For, cst.While)) and node not in building:
                found.setdefault((node, frame.context), Stretch(frame.module, node, frame, loop.event))
                break
    return list(found.values())


def _building(decisions: Decisions) -> set[cst.CSTNode]:
    """The statements in whose course a model is built, be it in a function that they call."""
    after = {wrap.statement for wrap in decisions.built if wrap.after}
    found = {node for wrap in decisions.built for node in wrap.module.enclosing(wrap.statement)}
    statements = {wrap.statement for wrap in decisions.built}
    for event in decisions.facts.run.events:
        nodes = [here.node for here in event.here.up()]
        for statement in statements.intersection(nodes):
            found.update(nodes if statement in after else nodes[_last(nodes, statement) + 1 :])
    return found | after


def _making_data(facts: Facts) -> set[cst.CSTNode]:
    """The loops in whose turns training data are made, maybe out of random numbers."""
    found: set[cst.CSTNode] = set()
    for loader in facts.loaders:
        if loader.obj not in facts.training_loaders:
            continue
        for obj in (loader.arguments.get("dataset", 0) or NOTHING).objs:
            for step in (*obj.context, obj.site):
                if isinstance(step, cst.CSTNode):
                    found.update(loops_around(facts.module_of(step), step))
    return found


def _drawing_weights(facts: Facts) -> set[cst.CSTNode]:
    """The statements in whose course weights are drawn between passes over the data."""
    drawn = [event for event in draws_of_weights(facts) if not facts.in_training(event)]
    return {here.node for event in drawn for here in event.here.up()}


def _last(nodes: list[cst.CSTNode], wanted: cst.CSTNode) -> int:
    """Of a statement and its arm, the statement."""
    return max(number for number, node in enumerate(nodes) if node is wanted)


# ---- what is drawn alike


def choices(facts: Facts) -> Iterator[Event]:
    """Draws that choose samples for all ranks, from the streams that ranks have in common."""
    for event in facts.of_kind(Kind.CALL):
        own = drawing.OWN_STREAM & event.arguments.keywords.keys()
        of_batch = any(value.scale is not Scale.CONST for value in event.arguments.all())
        plain = not own and not of_batch and event.value.scale is Scale.CONST
        if event.name in drawing.CHOOSING and plain and not for_each_sample(facts, event):
            yield event


def for_each_sample(facts: Facts, event: Event) -> bool:
    """`[choose() for _ in range(len(batch))]`: each rank draws for its own samples, if these are along the first
    dimension: along another may be the steps of time, at which a draw is for all of them.
    """
    if not put_together.lie_along_the_first(facts):
        return False
    for step in (*event.here.frame.context, event.node):
        loop = step.loop if isinstance(step, Turn) else step
        for outer, inner in around(facts.module_of(loop), loop):
            over = outer if isinstance(outer, cst.For) else outer.for_in if isinstance(outer, cst.BaseComp) else None
            if over is not None and inner is not over and facts.value(over.iter).scale in _BY_SAMPLES:
                return True
    return False


_BY_SAMPLES = PER_SAMPLE | {Scale.COUNT}


def ends(facts: Facts, found: list[Stretch]) -> Iterator[Stretch]:
    """Those after which something may be drawn that has to be alike: in a next turn, or from there on."""
    after = max((event.number for event in _drawing(facts, found)), default=-1)
    last = max((one.loop.number for one in found), default=-1)
    for one in found:
        before = next(number for number, (_, node) in enumerate(chain(one.loop)) if node is one.node)
        around = {node for _, node in chain(one.loop)[:before]} & one.loop.turns
        often = any(other.node is one.node and other is not one for other in found)
        followed = any(other.loop.number == last and other.node is not one.node for other in found)
        if around or often or followed or after > one.loop.number:
            yield one


def _drawing(facts: Facts, found: list[Stretch]) -> Iterator[Event]:
    """What may draw outside of all stretches, but for what an evaluation draws for each of its batches."""
    loops = [loop.event for loop in facts.loops]
    chosen = {event.node for event in choices(facts)}
    for event in facts.of_kind(Kind.CALL, Kind.METHOD):
        draws = event.node in chosen or may_draw(event)
        if draws and not any(one.holds(event) for one in found) and not any(map(event.inside, loops)):
            yield event


def draws_by_itself(event: Event) -> bool:
    """Whether random numbers are drawn by a call, and not given to it."""
    if event.name in _FILLING or event.name.startswith((*drawing.OF_WEIGHTS, *drawing.STREAMS)):
        return not seeding.is_seeding(event.name)
    if event.name.startswith("builtins."):
        return False  # an order that a function of the script has drawn
    if CHANCE not in event.value.sources:
        return False
    given = (one for value in (event.receiver, *event.arguments.all()) for one in values_in(value))
    return not any(CHANCE in value.sources for value in given)


def may_draw(event: Event) -> bool:
    """Whether random numbers may go into what a library does: samples, the weights of a module, or nobody knows."""
    if draws_by_itself(event):
        return True
    if event.kind is not Kind.CALL or seeding.is_seeding(event.name):
        return False
    return drawing.may_draw(event.name)


def end(facts: Facts, one: Stretch) -> tuple[cst.CSTNode, Module] | None:
    """The statement after which the stretch has ended, however it is left."""
    statements = chain(one.loop)
    place = next(number for number, (_, node) in enumerate(statements) if node is one.node)
    while place >= 0:
        frame, node = statements[place]
        if not _leaves(facts, frame, node):
            return (node, frame.module) if isinstance(node, (cst.SimpleStatementLine, cst.For, cst.While)) else None
        place = max((number for number in range(place) if statements[number][0] is not frame), default=-1)
    return None


def is_left_by_an_error(facts: Facts, one: Stretch) -> bool:
    """Whether an error that the script raises in it is caught outside of it: nothing behind the loop is come to."""
    inside = frozenset(tree.walk(one.node))
    raised = (event for event in facts.of_kind(Kind.LEAVE) if event.name == "raise" and one.holds(event))
    return any(may_be_caught(facts, event, inside) for event in raised)


def _leaves(facts: Facts, frame: Frame, node: cst.CSTNode) -> bool:
    """Whether a `return` in a statement leaves its function."""
    return any(
        event.name == "return" and event.here.frame is frame and any(here.node is node for here in event.here.up())
        for event in facts.of_kind(Kind.LEAVE)
    )


# ---- weights

#: Of weights: `bernoulli_` makes masks, each for the samples that it is given.
_FILLING = {one for one in drawing.METHODS if one.endswith("_")} - {"bernoulli_"} | drawing.RESETS


def draws_of_weights(facts: Facts) -> Iterator[Event]:
    """Where random numbers go into weights or gradients that are there already."""
    for event in facts.of_kind(Kind.STORE, Kind.CALL, Kind.METHOD):
        written = event.name in ("data", "grad") if event.kind is Kind.STORE else event.name.endswith("_")
        random = event.name in _FILLING or (written and CHANCE in event.value.sources)
        drawn = event.kind is not Kind.CALL and random and _is_weight(facts, event.receiver_node)
        if (drawn or event.name.startswith(drawing.OF_WEIGHTS)) and not event.in_a_maker:
            yield event


def _is_weight(facts: Facts, node: cst.BaseExpression | None) -> bool:
    """`module.weight.data`: a tensor that is reached through a module or its parameters."""
    objs = (obj for inner in tree.inwards(node) for obj in facts.value(inner).objs)
    return any(isinstance(obj, Parameters) or is_module(core(obj)) for obj in objs)


# ---- within a stretch


def reseeded(facts: Facts, found: list[Stretch]) -> dict[cst.CSTNode, Module]:
    """The statements in which the script sets a seed while the ranks draw apart, the last of each block."""
    seeds = [event for event in facts.of_kind(Kind.CALL) if seeding.is_seeding(event.name)]
    places: dict[cst.CSTNode, Module] = {}
    for event in seeds:
        for one in found:
            if one.holds(event):
                statement = _place(event, one, seeds)
                places[statement] = facts.module_of(statement)
    last = {node: module for node, module in places.items() if following(module, node) not in places}
    nodes = {event.node for event in seeds}
    return {_part_of_a_line(statement, nodes): module for statement, module in last.items()}


def _part_of_a_line(statement: cst.CSTNode, seeds: set[cst.CSTNode]) -> cst.CSTNode:
    """`torch.manual_seed(step); x = x + torch.randn_like(x)`: its first part."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return statement
    setting = [part for part in statement.body if not seeds.isdisjoint(tree.walk(part))]
    return setting[-1] if setting and setting[-1] is not statement.body[-1] else statement


def _place(event: Event, one: Stretch, seeds: list[Event]) -> cst.CSTNode:
    """Where the seed is set; or, where that happens outside of the stretch too, the call in it that leads there."""
    statements = chain(event)
    elsewhere = any(other.node is event.node and not one.holds(other) for other in seeds)
    if not elsewhere:
        return statements[-1][1]
    inside = [node for frame, node in statements if frame is one.frame]
    return inside[-1]


def following(module: Module, statement: cst.CSTNode) -> cst.CSTNode | None:
    """The statement after this one in its block."""
    block = module.block(statement)
    body = list(block.body)
    place = next(number for number, node in enumerate(body) if node is statement)
    return body[place + 1] if place + 1 < len(body) else None
