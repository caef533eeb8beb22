"""What stands between a loader and the loop that trains: generators, comprehensions, `map` and `filter`.

What they are made of is batches of the loader still, and which of these they hand on says how many steps there are.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.answers import answered_once
from distify_codemods.decisions.base import Decisions, Link
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import contained
from distify_codemods.libraries import python
from distify_codemods.objects import Passing, Sequence
from distify_codemods.records import dataclass


@dataclass(frozen=True)
class Handed:
    """What hands on batches that train, and where it takes them."""

    objs: frozenset[Obj]
    nodes: frozenset[cst.CSTNode]  # calls, clauses of comprehensions and functions that yield
    takings: frozenset[Event]


@answered_once
def handed_on(facts: Facts) -> Handed:
    objs, takings = dict[Obj, None](), dict[Event, None]()
    left = [draw for loop in facts.training_loops for draw in loop.draws]
    while left:
        found = [one for one in contained(left.pop().receiver) if _hands_on(one) and one not in objs]
        objs.update(dict.fromkeys(found))
        more = [draw for one in found for draw in _taken_for(facts, one) if draw not in takings]
        takings.update(dict.fromkeys(more))
        left += more
    nodes = frozenset(node for one in objs for node in _nodes(one))
    return Handed(frozenset(objs), nodes, frozenset(takings))


def taken_beside(facts: Facts) -> Iterator[Event]:
    """Where batches are taken in the same places for something else than training."""
    handed = handed_on(facts)
    for draw in facts.of_kind(Kind.DRAW):
        if draw not in handed.takings and not handed.nodes.isdisjoint((draw.node, draw.here.frame.node)):
            yield draw


def links(decisions: Decisions) -> Iterator[Link]:
    """A list of all batches, of which a rank would have its shares: in which order, and which of them, it may say."""
    for one in handed_on(decisions.facts).objs:
        lasting = isinstance(one, Sequence) and not _is_lazy(decisions.facts, one)
        if lasting and one.module is not None and one.site is not None:
            yield Link(
                one.module, one.site,
                "training takes its batches out of a list of them, which each rank may order by its own shares",
                "a loop over the loader itself is dealt out",
            )  # fmt: skip


def _hands_on(obj: Obj) -> bool:
    return isinstance(obj, Passing) or (isinstance(obj, Sequence) and bool(obj.deals))


def _taken_for(facts: Facts, obj: Obj) -> Iterator[Event]:
    nodes = set(_nodes(obj))
    for draw in facts.of_kind(Kind.DRAW):
        around = draw.here.frame
        if not nodes.isdisjoint((draw.node, around.node)) and around.context[: len(obj.context)] == obj.context:
            yield draw


def _nodes(obj: Obj) -> Iterator[cst.CSTNode]:
    if isinstance(obj.site, cst.BaseComp):
        clause: cst.CompFor | None = obj.site.for_in
        while clause is not None:
            yield from (clause, *clause.ifs)
            clause = clause.inner_for_in
    elif isinstance(obj, Sequence) and obj.code is not None and obj.code.function is not None:
        yield from [obj.code.function.node] if obj.code.function.node is not None else []
    elif obj.site is not None:
        yield obj.site


def _is_lazy(facts: Facts, obj: Sequence) -> bool:
    """Whether it gives one batch after the other, as the loader does."""
    if obj.code is not None or isinstance(obj.site, cst.GeneratorExp):
        return True
    return any(event.node is obj.site for event in facts.calls(python.MAP))
