"""What training puts down for each sample at its own place: `confidence[epoch, i] = p`.

It is for all samples, whoever writes, shows or counts it later, and a rank has the places of its own samples alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Decisions, Link
from distify_codemods.facts import Facts
from distify_codemods.naming import brief
from distify_codemods.program import Module
from distify_codemods.scale import Scale


def links(decisions: Decisions) -> Iterator[Link]:
    facts = decisions.facts
    for left in decisions.left:
        statement = next((one for one in left.module.enclosing(left.node) if isinstance(one, cst.Assign)), left.node)
        targets = tree.targets(statement) if isinstance(statement, cst.Assign) else ()
        places = [one for one in targets if isinstance(one, cst.Subscript)]
        if any(_is_of_a_sample(facts, one) and _is_there_before(facts, left.module, one) for one in places):
            yield Link(
                left.module, left.node,
                f"`{brief(statement)}` keeps something for each sample, and each rank would have it of its own alone: "
                "in the places of the others nothing would stand",
                "what is added up over samples, or kept for each batch, is put together or said",
            )  # fmt: skip


def _is_of_a_sample(facts: Facts, target: cst.Subscript) -> bool:
    """Whether the place is one that samples of a batch say themselves."""
    keys = [one.slice.value for one in target.slice if isinstance(one.slice, cst.Index)]
    values = map(facts.value, keys)
    return any(facts.shares_of_training(one) and one.scale not in (Scale.CONST, Scale.COUNT) for one in values)


def _is_there_before(facts: Facts, module: Module, target: cst.Subscript) -> bool:
    """Whether what takes it was not made in the same turn: targets of one batch, one entry in each row."""
    holder: cst.BaseExpression = target
    while isinstance(holder, cst.Subscript):
        holder = holder.value
    if not isinstance(holder, cst.Name):
        return True
    turns = [loop.node.body for loop in facts.training_loops if loop.node in module.enclosing(target)]
    made = module.flow(target).reaching(holder)
    return not made or any(all(body not in module.enclosing(one) for body in turns) for one in made)
