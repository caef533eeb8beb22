"""What a model, a loss or a hook keeps of each batch in its forward pass, beside what it returns.

Ranks see their own samples there. A list that grows, a count, a running mean would be one rank's, and whoever prints,
saves or goes by it would have one rank's: where forward passes are shared, it is that of whole batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Decisions, Link
from distify_codemods.decisions.own_figures import is_made_in
from distify_codemods.decisions.places import Place, places_of
from distify_codemods.decisions.sinks import Kind, Sink, sinks
from distify_codemods.facts import Facts
from distify_codemods.naming import brief


def links(decisions: Decisions) -> Iterator[Link]:
    facts = decisions.facts
    for sink in sinks(facts) if facts.training_loops else ():
        if _adds_up(sink) and _is_of_one_rank(facts, sink) and _outlives(facts, sink):
            yield Link(
                sink.module, sink.node,
                f"`{brief(sink.node)}` keeps something of each batch, which would be that of a rank's own samples",
                "what a forward pass returns, and the training loop keeps, can be put together over the ranks",
            )  # fmt: skip


def _adds_up(sink: Sink) -> bool:
    """What only holds the last batch is what the model returns, by another way."""
    if sink.kind is not Kind.STORED or not isinstance(sink.node, cst.Assign):
        return sink.kind in (Kind.ADDED, Kind.COUNTED)
    targets = {tree.code_of(one) for one in tree.targets(sink.node)}
    return any(isinstance(one, cst.Attribute) and tree.code_of(one) in targets for one in tree.walk(sink.value))


def _is_of_one_rank(facts: Facts, sink: Sink) -> bool:
    if places_of(facts).of(sink.module, sink.node) is not Place.MODEL:
        return False
    parts = (one for one in tree.walk(sink.value) if isinstance(one, cst.BaseExpression))
    return any(facts.shares_of_training(facts.value(one)) for one in parts)


def _outlives(facts: Facts, sink: Sink) -> bool:
    """Whether what takes it is there when the batch is gone."""
    objs = [obj for holder in _holders(sink.node) for obj in facts.value(holder).objs]
    return any(not any(is_made_in(loop, obj) for loop in facts.loops) for obj in objs)


def _holders(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """`self` of `self.total += x`, `rows` of `rows.append(x)` and of `rows += x`."""
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute):
            yield node.func.value
    elif isinstance(node, (cst.Assign, cst.AugAssign)):
        for target in tree.targets(node):
            yield target.value if isinstance(target, (cst.Attribute, cst.Subscript)) else target
