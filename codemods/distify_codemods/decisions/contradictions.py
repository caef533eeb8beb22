"""Whether what was decided fits together: a line stands once in the new file, whatever it was decided for.

Each decision is made for what happens in some contexts. That those of one loop agree is meant by how they are made;
here it is looked at once more, as they are, so that no two that contradict each other are ever written.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Blocked, Decisions, Gathering, Reduction, Sharding

_TOLD = "what is right here in one call is wrong in another"
_FIX = "write a function of its own for each"


def contradictions(decisions: Decisions) -> Iterator[Blocked]:
    """Places for which two things were decided that do not go together."""
    shared_out: list[Reduction | Gathering] = [*decisions.reductions, *decisions.gatherings]
    loops = {one.loop.node: one.loop for one in shared_out}
    for node, loop in loops.items():
        if _parts(decisions, node):
            yield Blocked("EVAL01", loop.module, node, _TOLD, _FIX)
    views = decisions.views
    for number, view in enumerate(views):
        if any(one.node is view.node and one != view for one in views[:number]):
            yield Blocked("EVAL01", view.module, view.node, _TOLD, _FIX)


def _parts(decisions: Decisions, node: cst.CSTNode) -> bool:
    """Whether a loop that shares out its samples does so in one way, and with all of its batches."""
    summed = [one for one in decisions.reductions if one.loop.node is node]
    gathered = [one for one in decisions.gatherings if one.loop.node is node]
    if (summed and gathered) or any(loop.node is node for loop, _ in decisions.replicated):
        return True
    if len({*map(_written, summed), *map(_written, gathered)}) > 1:
        return True
    way = Sharding.SUMS if summed else Sharding.GATHERED
    contexts = [loop for loop in decisions.facts.loops if loop.node is node and not loop.trains]
    met_alone = any(one.node in tree.walk(node) for one in decisions.averages) and way is Sharding.SUMS
    return met_alone or any(dealt is not way for loop in contexts for dealt in decisions.dealt_in(loop))


def _written(one: Reduction | Gathering) -> tuple[object, ...]:
    if isinstance(one, Reduction):
        return one.names, one.when, one.loader, one.means
    return one.statement, one.names, one.loader
