"""Where ranks come in their own time, so that they cannot wait for each other there."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Sharding
from distify_codemods.inside import root
from distify_codemods.libraries import python
from distify_codemods.objects import External, Sequence
from distify_codemods.rules.barriers import Barrier
from distify_codemods.rules.base import Context


def in_unequal_turns(context: Context, loops: frozenset[cst.CSTNode]) -> bool:
    """Whether one of these is an evaluation loop, of which ranks may have unequal numbers of batches."""
    sums = {loop.node for loop in context.facts.evaluation_loops
            if Sharding.SUMS in context.decisions.dealt_in(loop)}  # fmt: skip
    return not sums.isdisjoint(loops)


def by_how_far_it_is(context: Context, barrier: Barrier) -> bool:
    """Whether a test around it asks how far something is that runs beside: `if self.queue.qsize() < 4:`"""
    tests = [getattr(node, "test", None) for node, _, _ in barrier.conditions]
    asked = [one for test in tests if isinstance(test, cst.CSTNode) for one in tree.walk(test)]
    methods = (one.func for one in asked if isinstance(one, cst.Call) and isinstance(one.func, cst.Attribute))
    return any(_tells_how_far(obj, one.attr.value) for one in methods for obj in context.facts.value(one.value).objs)


def _tells_how_far(owner: Obj, method: str) -> bool:
    if isinstance(owner, Sequence):
        return method in python.LEVELS
    owner = root(owner)
    return isinstance(owner, External) and owner.name.startswith(python.TELLS_HOW_FAR)
