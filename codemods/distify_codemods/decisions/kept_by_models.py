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
from distify_codemods.decisions.places import places_of
from distify_codemods.decisions.sinks import Kind as Sinks
from distify_codemods.decisions.sinks import Sink, sinks
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.naming import brief
from distify_codemods.scale import PER_SAMPLE


def links(decisions: Decisions) -> Iterator[Link]:
    facts = decisions.facts
    if not facts.training_loops:
        return
    found = [
        (sink.module, sink.node) for sink in sinks(facts)
        if _adds_up(sink) and _is_of_one_rank(facts, sink) and _outlives(facts, sink)
    ]  # fmt: skip
    found += [(event.module, event.node) for event in facts.of_kind(Kind.METHOD) if _changes_what_stays(facts, event)]
    for module, node in dict.fromkeys(found):
        yield Link(
            module, node,
            f"`{brief(node)}` keeps something of each batch, which would be that of a rank's own samples",
            "what a forward pass returns, and the training loop keeps, can be put together over the ranks",
        )  # fmt: skip


def _changes_what_stays(facts: Facts, event: Event) -> bool:
    """`self.mean.mul_(0.9).add_(x.mean())`: of an attribute that is no batch."""
    in_place = event.name.endswith("_") and not event.name.startswith("_")
    held = next((one for one in tree.inwards(event.receiver_node) if _is_attribute(one)), None) if in_place else None
    if held is None or event.module.function(event.node) not in places_of(facts).in_models:
        return False
    given = any(facts.shares_of_training(value) for value in event.arguments.all())
    return given and facts.value(held).scale not in PER_SAMPLE


def _is_attribute(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name)


def _adds_up(sink: Sink) -> bool:
    """What only holds the last batch is what the model returns, by another way: `self.last = x`, `found["x"] = x`."""
    if sink.kind is not Sinks.STORED:
        return sink.kind in (Sinks.ADDED, Sinks.COUNTED)
    if isinstance(sink.node, cst.Assign) and not sink.fresh:
        return True
    of_attributes = any(isinstance(one, cst.Attribute) for one in _targets(sink.node))
    written = [*_targets(sink.node), *(() if of_attributes else _holders(sink.node))]
    read = (one for one in tree.walk(sink.value) if isinstance(one, (cst.Attribute, cst.Subscript)))
    return not {tree.code_of(one) for one in written}.isdisjoint(map(tree.code_of, read))


def _targets(node: cst.CSTNode) -> list[cst.BaseExpression]:
    return tree.targets(node) if isinstance(node, (cst.Assign, cst.AugAssign)) else []


def _is_of_one_rank(facts: Facts, sink: Sink) -> bool:
    if sink.module.function(sink.node) not in places_of(facts).in_models:
        return False
    parts = (one for one in tree.walk(sink.value) if isinstance(one, cst.BaseExpression))
    return any(facts.shares_of_training(facts.value(one)) for one in parts)


def _outlives(facts: Facts, sink: Sink) -> bool:
    """Whether what takes it is there when the batch is gone."""
    if any(_is_begun_anew(sink, holder) for holder in _holders(sink.node)):
        return False
    objs = [obj for holder in _holders(sink.node) for obj in facts.value(holder).objs]
    return any(not any(is_made_in(loop, obj) for loop in facts.loops) for obj in objs)


def _is_begun_anew(sink: Sink, holder: cst.BaseExpression) -> bool:
    """`self.losses = []`, further up in the function that fills it."""
    function, name = sink.module.function(sink.node), tree.code_of(holder)
    body = function.body.body if isinstance(function, cst.FunctionDef) else ()
    around = {sink.node, *sink.module.enclosing(sink.node)}
    for line in body:
        for one in line.body if isinstance(line, cst.SimpleStatementLine) else (line,):
            if one in around:
                return False
            makes = isinstance(one, cst.Assign) and isinstance(one.value, (cst.List, cst.Dict))
            if makes and any(tree.code_of(target) == name for target in _targets(one)):
                return True
    return False


def _holders(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """`self` of `self.total += x`, `rows` of `rows.append(x)` and of `rows += x`."""
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute):
            yield node.func.value
    else:
        for target in _targets(node):
            yield target.value if isinstance(target, (cst.Attribute, cst.Subscript)) else target
