"""Names that a training loop carries from turn to turn, and that are read after it: `worst = max(worst, loss)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.names import bound_by, read_after
from distify_codemods.decisions.training_sums import training_sums
from distify_codemods.facts import BatchLoop, Facts

_Update = cst.Assign | cst.AugAssign


def carried(facts: Facts) -> Iterator[tuple[BatchLoop, _Update, frozenset[cst.CSTNode]]]:
    """Each update of such a name, and where it reads the name itself; what is reduced after the loop is left out."""
    for loop in facts.training_loops:
        sums = training_sums(facts, loop)
        reduced = {*sums.names, *sums.means} if sums is not None else set()
        binding = [node for node in tree.walk(loop.node.body) if isinstance(node, (cst.Assign, *_OTHERS))]
        for name in sorted(bound_by(loop.node.body) - reduced):
            updates = _updates(binding, name)
            if updates and read_after(loop, {name}):
                yield from ((loop, update, _reads(update, name)) for update in updates)


_OTHERS = (cst.AssignTarget, cst.AugAssign, cst.For, cst.AnnAssign, cst.NamedExpr, cst.AsName)


def _updates(binding: Sequence[cst.CSTNode], name: str) -> list[_Update]:
    """All that binds the name, of what binds any in the loop; nothing if a turn may begin anew."""
    found: list[_Update] = []
    for node in binding:
        if isinstance(node, cst.AugAssign) and _is_name(node.target, name):
            found.append(node)
        elif isinstance(node, cst.Assign) and len(node.targets) == 1 and _is_name(node.targets[0].target, name):
            found += [node] if _reads(node, name) else []
    inside = {inner for update in found for inner in tree.walk(update)}
    anew = any(
        isinstance(node, _OTHERS) and node not in inside and name in bound_by(node) for node in binding
        if not isinstance(node, cst.For) or name in tree.target_names(node.target)
    )  # fmt: skip
    return [] if anew else found


def _is_name(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _reads(update: _Update, name: str) -> frozenset[cst.CSTNode]:
    return frozenset(node for node in tree.walk(update.value) if _is_name(node, name))
