"""Names that a training loop carries from turn to turn, and that are read after it: `worst = max(worst, loss)`.

Or in it, where no mean or sum over what the ranks have would be what one process has.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.log_records import shown_lines
from distify_codemods.decisions.names import bound_by, read_after
from distify_codemods.decisions.training_sums import training_sums
from distify_codemods.facts import BatchLoop, Facts
from distify_codemods.scale import Scale

_Update = cst.Assign | cst.AugAssign


def carried(facts: Facts) -> Iterator[tuple[BatchLoop, _Update, frozenset[cst.CSTNode]]]:
    """Each update of such a name, and where it reads the name itself; what is reduced after the loop is left out."""
    for loop in facts.training_loops:
        sums = training_sums(facts, loop)
        reduced = {*sums.names, *sums.means} if sums is not None else set()
        for name in sorted(bound_by(loop.node.body) - reduced):
            updates = _updates(loop, name)
            if updates and (read_after(loop, {name}) or _is_shown_bent(facts, loop, name, updates)):
                yield from ((loop, update, _reads(update, _bound(update))) for update in updates)


def _is_shown_bent(facts: Facts, loop: BatchLoop, name: str, updates: list[_Update]) -> bool:
    """Whether the loop shows what is no mean or sum, and is not set anew in each turn: a least loss so far, say."""
    if isinstance(loop.node, cst.For) and name in tree.target_names(loop.node.target):
        return False
    shows = [event for event in shown_lines(facts) if event.inside(loop.event)]
    asked = [one for update in updates if isinstance(update, cst.Assign) for one in _asking(loop, update, {name})]
    shown = [one for event in shows for one in tree.walk(event.node) if isinstance(one, cst.Name) and one.value == name]
    values = [facts.value(one) for one in shown]
    return any(facts.shares_of_training(one) and (asked or one.scale not in _ADDS_UP) for one in values)


#: What the figures of all ranks can be made of where they are shown.
_ADDS_UP = (Scale.MEAN, Scale.SUM, Scale.COUNT, Scale.SAMPLES)


def _updates(loop: BatchLoop, name: str) -> list[_Update]:
    """All that binds the name in the loop; nothing if a turn may begin anew."""
    bound = loop.module.flow(loop.node).bindings(loop.node.body, name)
    found = [update for node in bound if (update := _update(loop, node, name)) is not None]
    return found if len(found) == len(bound) else []


def _update(loop: BatchLoop, bound: cst.CSTNode, name: str) -> _Update | None:
    target = loop.module.parents[bound]
    if isinstance(target, cst.AugAssign):
        return target
    while isinstance(target, (cst.Tuple, cst.Element)):  # `best, where = loss.item(), step`
        target = loop.module.parents[target]
    holder = loop.module.parents.get(target)
    if not isinstance(target, cst.AssignTarget) or not isinstance(holder, cst.Assign) or len(holder.targets) > 1:
        return None
    return holder if _reads(holder, {name}) or _is_asked_for(loop, holder, name) else None


def chosen_by(facts: Facts) -> set[cst.If]:
    """The branches that decide whether such a name gets another value: `if loss < best: best = loss`."""
    return {
        one
        for loop, update, own in carried(facts) if not own and isinstance(update, cst.Assign)
        for target in update.targets for one in _asking(loop, update, {*tree.target_names(target.target)})
    }  # fmt: skip


def _is_asked_for(loop: BatchLoop, update: cst.Assign, name: str) -> bool:
    """`if best is None or loss < best: best = loss`: it stays what it was in other turns."""
    return next(_asking(loop, update, {name}), None) is not None


def _asking(loop: BatchLoop, update: cst.Assign, names: Collection[str]) -> Iterator[cst.If]:
    """The branches around an update, in its loop, whose tests read one of these names."""
    for one in itertools.takewhile(lambda one: one is not loop.node, loop.module.enclosing(update)):
        read = tree.walk(one.test) if isinstance(one, cst.If) else ()
        if isinstance(one, cst.If) and any(isinstance(node, cst.Name) and node.value in names for node in read):
            yield one


def _bound(update: _Update) -> set[str]:
    """All names that it gives a value: `total, seen = total + loss, seen + 1`."""
    return {name for target in tree.targets(update) for name in tree.target_names(target)}


def _reads(update: _Update, names: Collection[str]) -> frozenset[cst.CSTNode]:
    return frozenset(node for node in tree.walk(update.value) if isinstance(node, cst.Name) and node.value in names)
