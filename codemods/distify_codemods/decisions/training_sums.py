"""What a training loop adds up and is used after it, put together over the ranks: all of a ratio, or nothing of it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.batches import dealt_by
from distify_codemods.decisions.base import Reduction
from distify_codemods.decisions.in_turns import is_a_sum_over_samples
from distify_codemods.decisions.names import (
    bound_by,
    flat,
    read_after,
    starts_at_zero,
    update_of,
)
from distify_codemods.facts import BatchLoop, Facts
from distify_codemods.objects import External, Instance, Mapping, Sequence
from distify_codemods.origins import Verdict
from distify_codemods.scale import Scale
from distify_codemods.values import Value


def training_sums(facts: Facts, loop: BatchLoop) -> Reduction | None:
    """What a training loop adds up and is used after it: sums over samples, from zero; means of batches."""
    updates: dict[str, list[Scale]] = {}
    for statement in flat(facts, loop):
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            update = update_of(small)
            if update is not None:
                updates.setdefault(update[0], []).append(_scale(facts.value(update[1])))
    flow = loop.module.flow(loop.node)
    for node in tree.walk(loop.node.body):
        if not isinstance(node, cst.AugAssign) or not isinstance(node.target, cst.Name):
            continue
        if is_a_sum_over_samples(facts, loop, node):
            updates.setdefault(node.target.value, []).append(Scale.SUM)
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


def _scale(added: Value) -> Scale:
    """Whether a mean or a sum is larger than something is neither: `good += acc > 0.9`."""
    judged = added.scale in (Scale.MEAN, Scale.SUM) and any(isinstance(obj, Verdict) for obj in added.objs)
    return Scale.COUPLED if judged else added.scale


def _is_figure(facts: Facts, loop: BatchLoop, name: str) -> bool:
    """A number that adds up what the batches of this loop give, and not a list, nor an object that does as it likes."""
    held = [
        facts.value(node) for node in tree.walk(loop.node.body) if isinstance(node, cst.Name) and node.value == name
    ]
    return bool(held) and not any(
        isinstance(obj, (Sequence, Mapping, Instance)) for value in held for obj in value.objs
    )


def halves(facts: Facts, found: Reduction, beside: Collection[str], told: Collection[cst.CSTNode]) -> set[str]:
    """Names of sums that meet a rank's own figure: of `right / seen`, the rank's own is near the truth, half is not.

    beside: other names of which it is known that the loop keeps a rank's own figures under them. told: what has been
    put together by itself.
    """
    after, names = list(_around(found.loop)), set(found.names)
    others = bound_by(found.loop.node.body) - {*found.names, *found.means}
    rest = {name for name in others if _is_one_ranks(facts, after, name)}
    rest |= {name for name in others - rest if _counts_its_own(facts, found.loop, name, told)} | set(beside)
    meetings = [together for node in after if len(together := _together(node) & (names | rest)) > 1]
    while more := [together for together in meetings if together & rest and together - rest]:
        rest |= {name for together in more for name in together}
    return names & rest


def _counts_its_own(facts: Facts, loop: BatchLoop, name: str, told: Collection[cst.CSTNode]) -> bool:
    """Whether what it is counted up by, or when, has to do with samples, whatever the number itself is taken for."""
    for node in loop.module.flow(loop.node).bindings(loop.node.body, name):
        update = loop.module.parents.get(node)
        if isinstance(update, cst.AssignTarget):
            update = loop.module.parents.get(update)
            if not isinstance(update, cst.Assign) or name not in tree.names(update.value):
                continue
        if isinstance(update, (cst.Assign, cst.AugAssign)):
            when = itertools.takewhile(lambda one: one is not loop.node, loop.module.enclosing(update))
            asked = [one.iter if isinstance(one, cst.For) else one.test for one in when if isinstance(one, _DECIDING)]
            if any(_has_samples(facts, one, told) for one in (update.value, *asked)):
                return True
    return False


_DECIDING = (cst.For, cst.While, cst.If)
#: What is the same of each rank's share as of the batch.
_OF_FORM = frozenset("size dim ndim ndimension shape dtype device".split())


def _has_samples(facts: Facts, node: cst.CSTNode, told: Collection[cst.CSTNode]) -> bool:
    if node in told:
        return False
    if isinstance(node, cst.BaseExpression):
        value = facts.value(node)
        if isinstance(node, cst.Name):
            return value.scale is not Scale.CONST and bool(dealt_by(value.sources))
        asked = node.func if isinstance(node, cst.Call) else node
        if isinstance(asked, cst.Attribute) and asked.attr.value in _OF_FORM and value.scale is Scale.CONST:
            return False
    return any(_has_samples(facts, one, told) for one in tree.children(node))


def written_names(facts: Facts, loop: BatchLoop, nodes: Collection[cst.CSTNode]) -> set[str]:
    """The names of the tensors, lists and dictionaries that these statements and calls of a loop put figures into."""
    found: set[str] = set()
    for node in nodes:
        if loop.node not in loop.module.enclosing(node):
            continue
        places = tree.assigned(node)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            places = [node.func.value]
        others = (External, Instance) if isinstance(node, cst.Call) else (Instance,)
        inner = [list(tree.inwards(one))[-1] for place in places for one in tree.leaves(place)]
        found.update(
            one.value for one in inner
            if isinstance(one, cst.Name) and not any(isinstance(obj, others) for obj in facts.value(one).objs)
        )  # fmt: skip
    return found


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
