"""Loops that ranks run through in their own time, so that they cannot wait for each other in there."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.base import Sharding
from distify_codemods.rules.base import Context


def in_unequal_turns(context: Context, loops: frozenset[cst.CSTNode]) -> bool:
    """Whether one of these is an evaluation loop, of which ranks may have unequal numbers of batches."""
    sums = {loop.node for loop in context.facts.evaluation_loops
            if Sharding.SUMS in context.decisions.dealt_in(loop)}  # fmt: skip
    return not sums.isdisjoint(loops)
