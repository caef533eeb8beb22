"""Where ranks come one after the other, rank 0 first, and what must not let only some of them come there."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Sharding
from distify_codemods.events import Event, Kind
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, ways_to


def place(context: Context, event: Event) -> tuple[Module, cst.CSTNode]:
    """The statement that ranks come to in turns, for what happens in it."""
    return context.above_file_tests(event, _met_in(context))


def ranks_meet_in(context: Context, node: cst.CSTNode) -> bool:
    """Whether ranks, one after the other there, would wait for each other."""
    return node in _met_in(context)


def hands_on_in(node: cst.CSTNode) -> bool:
    """Whether a statement goes on only when somebody else has had its turn: `yield Data(root)`, `await read(root)`."""
    return any(isinstance(one, (cst.Yield, cst.Await)) for one in tree.walk(node))


def _met_in(context: Context) -> set[cst.CSTNode]:
    """The statements in which ranks meet: there they train, share batches out, or take a model from rank 0.

    Who waits for rank 0 to be done does not meet it.
    """
    if context.met_in is None:
        decided, facts = context.decisions, context.facts
        loaders = {one for made in decided.loaders if made.sharding is Sharding.TRAINING for one in made.loaders}
        met = ways_to([*facts.backwards, *(one.made for one in loaders), *(one.event for one in facts.loops)])
        lines = {one.statement for one in decided.wraps} | {one.statement for one in decided.shared}
        ends = (here.parent for event in facts.run.events for here in event.here.up() if here.node in lines)
        context.met_in = met | {here.node for end in ends if end is not None for here in end.up()}
    return context.met_in


def parting(context: Context, found: list[Event]) -> set[cst.CSTNode]:
    """The tests of what files there are by which not all ranks would come to where these events happen in turns.

    Rank 0, which comes first, may have made the file that another rank asks for.
    """
    leaves = context.facts.of_kind(Kind.LEAVE) if found else []
    return {test for event in found for test in _parting(context, event, leaves)}


def _parting(context: Context, event: Event, leaves: list[Event]) -> Iterator[cst.CSTNode]:
    _, inside = place(context, event)
    around = list(event.here.up())
    outside = around[max((number for number, here in enumerate(around, 1) if here.node is inside), default=0) :]
    yield from (here.node for here in outside if here.arm and context.asks_the_disk(here.node))
    frames = {here.frame for here in outside} | {here.frame for here in around if here.node is inside}
    for leave in leaves:
        if leave.before(event) and (leave.name == "exit" or leave.here.frame in frames):
            ways = [here.node for here in leave.here.up()]
            yield from (node for node in ways if inside not in ways and context.asks_the_disk(node))
