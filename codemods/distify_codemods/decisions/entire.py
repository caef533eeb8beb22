"""What every rank computes entirely, whatever its share: a model that makes something of all there is, and then takes
the entries that a batch asks for.

That is right with fewer samples, too, and no faster: a result for each sample is not work for each sample.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.allocation import Ref
from distify_codemods.decisions.touching import parts_of
from distify_codemods.facts import Facts, dealt_by
from distify_codemods.naming import brief
from distify_codemods.origins import Through
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE
from distify_codemods.values import Value

#: What takes entries by their numbers, beside `table[numbers]`: as a method, and as a function of a table.
_TAKE = frozenset({"index_select", "gather", "take", "take_along_dim"})


@dataclass(frozen=True)
class Entire:
    module: Module
    node: cst.CSTNode
    message: str


def computed_entirely(facts: Facts) -> list[Entire]:
    """Calls of what is trained that are not given anything of a batch, and of whose results a batch takes entries."""
    taken = list(_taken(facts)) if facts.training_loops and facts.run.exact else []
    if not taken:
        return []
    traced = facts.tried(tracing=True, hooks=())
    parts = {part: parts_of(part) for model in traced.models for part in parts_of(model)}
    found: dict[cst.CSTNode, Entire] = {}
    for whole, node in taken:
        calls = (one for one in traced.value(whole).sources if isinstance(one, Through) and not one.straight)
        sizes = {one: len(parts[one.of]) for one in calls if one.of in parts}
        mark = max(sizes, key=lambda one: (sizes[one], one.number), default=None)  # that others are made in
        if mark is not None and mark.module is not None and mark.site is not None:
            found.setdefault(mark.site, Entire(mark.module, mark.site, _told(mark.site, node)))
    return list(found.values())


def _told(site: cst.CSTNode, node: cst.CSTNode) -> str:
    return (
        f"every rank computes all of `{brief(site)}`, of which `{brief(node)}` takes what its samples need: this part "
        "of training gets no faster with more ranks"
    )


def _taken(facts: Facts) -> Iterator[tuple[cst.BaseExpression, cst.CSTNode]]:
    """What entries are taken of, none of which is a batch's, by numbers that are; and where."""
    for node in list(facts.run.values):
        if isinstance(node, cst.Subscript):
            keys = [facts.value(one.slice.value) for one in node.slice if isinstance(one.slice, cst.Index)]
            if not _is_of_a_batch(facts.value(node.value)) and any(map(_is_for_samples, keys)):
                yield node.value, node
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _TAKE:
            is_function = any(isinstance(obj, Ref) for obj in facts.value(node.func).objs)
            table, *others = [*([] if is_function else [node.func.value]), *(one.value for one in node.args), node]
            if not _is_of_a_batch(facts.value(table)) and any(_is_for_samples(facts.value(one)) for one in others[:-1]):
                yield table, node


def _is_of_a_batch(value: Value) -> bool:
    return bool(dealt_by(value.sources))


def _is_for_samples(value: Value) -> bool:
    """Whether it has something for each sample of a batch; how many there are is not that."""
    return _is_of_a_batch(value) and value.scale in PER_SAMPLE
