"""Names that a training loop carries from turn to turn, and that are read after it: `worst = max(worst, loss)`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.names import bound_by, read_after
from distify_codemods.decisions.training_sums import training_sums
from distify_codemods.facts import BatchLoop, Facts
from distify_codemods.program import Module

_Update = cst.Assign | cst.AugAssign


def carried(facts: Facts) -> Iterator[tuple[BatchLoop, _Update, frozenset[cst.CSTNode]]]:
    """Each update of such a name, and where it reads the name itself; what is reduced after the loop is left out."""
    for loop in facts.training_loops:
        sums = training_sums(facts, loop)
        reduced = {*sums.names, *sums.means} if sums is not None else set()
        for name in sorted(bound_by(loop.node.body) - reduced):
            updates = _updates(loop, name)
            if updates and read_after(loop, {name}):
                yield from ((loop, update, _reads(update, name)) for update in updates)


def _updates(loop: BatchLoop, name: str) -> list[_Update]:
    """All that binds the name in the loop; nothing if a turn may begin anew."""
    bound = loop.module.flow(loop.node).bindings(loop.node.body, name)
    found = [update for node in bound if (update := _update(loop.module, node, name)) is not None]
    return found if len(found) == len(bound) else []


def _update(module: Module, bound: cst.CSTNode, name: str) -> _Update | None:
    target = module.parents[bound]
    if isinstance(target, cst.AugAssign):
        return target
    holder = module.parents.get(target)
    is_one = isinstance(target, cst.AssignTarget) and isinstance(holder, cst.Assign) and len(holder.targets) == 1
    return holder if is_one and isinstance(holder, cst.Assign) and _reads(holder, name) else None


def _reads(update: _Update, name: str) -> frozenset[cst.CSTNode]:
    return frozenset(node for node in tree.walk(update.value) if isinstance(node, cst.Name) and node.value == name)
