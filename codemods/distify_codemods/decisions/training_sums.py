"""What a training loop adds up and is used after it, put together over the ranks: all of a ratio, or nothing of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.batches import dealt_by
from distify_codemods.decisions.base import Reduction
from distify_codemods.decisions.names import (
    bound_by,
    flat,
    read_after,
    starts_at_zero,
    update_of,
)
from distify_codemods.facts import BatchLoop, Facts
from distify_codemods.objects import Mapping, Sequence
from distify_codemods.scale import Scale


def training_sums(facts: Facts, loop: BatchLoop) -> Reduction | None:
    """What a training loop adds up and is used after it: sums over samples, from zero; means of batches."""
    updates: dict[str, list[Scale]] = {}
    for statement in flat(facts, loop):
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            update = update_of(small)
            if update is not None:
                updates.setdefault(update[0], []).append(facts.value(update[1]).scale)
    flow = loop.module.flow(loop.node)
    whole = [
        name
        for name, scales in updates.items()
        if len(flow.bindings(loop.node.body, name)) == len(scales) and read_after(loop, {name})
    ]
    names = [
        name for name in whole
        if set(updates[name]) <= {Scale.SUM, Scale.COUNT} and starts_at_zero(facts, loop, name)
    ]  # fmt: skip
    means = [name for name in whole if set(updates[name]) == {Scale.MEAN} and _is_figure(facts, loop, name)]
    return Reduction(loop, tuple(names), means=tuple(means)) if names or means else None


def _is_figure(facts: Facts, loop: BatchLoop, name: str) -> bool:
    """A number that adds up what the batches of this loop give, and not a list."""
    held = [
        facts.value(node) for node in tree.walk(loop.node.body) if isinstance(node, cst.Name) and node.value == name
    ]
    return bool(held) and not any(isinstance(obj, (Sequence, Mapping)) for value in held for obj in value.objs)


def halves(facts: Facts, found: Reduction) -> set[str]:
    """Names of sums that meet a rank's own figure: of `right / seen`, the rank's own is near the truth, half is not."""
    after, names = list(_around(found.loop)), set(found.names)
    others = bound_by(found.loop.node.body) - {*found.names, *found.means}
    rest = {name for name in others if _is_one_ranks(facts, after, name)}
    meetings = [together for node in after if len(together := _together(node) & (names | rest)) > 1]
    while more := [together for together in meetings if together & rest and together - rest]:
        rest |= {name for together in more for name in together}
    return names & rest


def _around(loop: BatchLoop) -> Iterator[cst.CSTNode]:
    """What surrounds the loop, without the names that are bound there."""
    inside = set(tree.walk(loop.node))
    for node in tree.walk(loop.module.scope(loop.node)):
        if node not in inside and not isinstance(loop.module.parents.get(node), cst.AssignTarget):
            yield node


def _is_one_ranks(facts: Facts, after: Collection[cst.CSTNode], name: str) -> bool:
    values = (facts.value(node) for node in after if isinstance(node, cst.Name) and node.value == name)
    return any(dealt_by(value.sources) for value in values)


def _together(node: cst.CSTNode) -> set[str]:
    """The names that an expression computes with, hands over, or gives back at once."""
    if isinstance(node, cst.BinaryOperation):
        return {one.value for one in tree.walk(node) if isinstance(one, cst.Name)}
    if isinstance(node, cst.Call):
        return {one.value.value for one in node.args if isinstance(one.value, cst.Name)}
    if isinstance(node, (cst.Tuple, cst.List)):
        return {one.value.value for one in node.elements if isinstance(one.value, cst.Name)}
    return set()
