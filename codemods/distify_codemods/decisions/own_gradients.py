"""Gradients of tensors that belong to no module, which the script reads: nothing averages them over the ranks."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.decisions.base import Decisions, Link
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.naming import brief
from distify_codemods.origins import Zero
from distify_codemods.scale import Scale
from distify_codemods.settled import is_module


def links(decisions: Decisions) -> Iterator[Link]:
    """`extra -= rate * extra.grad`; of entries of a batch, gradients are followed to where they go (`SLOPES`)."""
    facts = decisions.facts
    for event in facts.of_kind(Kind.ATTRIBUTE) if facts.training_loops else ():
        if event.name == "grad" and event.receiver.scale is Scale.CONST and _is_of_no_module(facts, event):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` is the gradient of a tensor that belongs to no module: each rank would "
                "have that of its own samples",
                "make it a parameter of the model",
            )  # fmt: skip


def _is_of_no_module(facts: Facts, event: Event) -> bool:
    plain = facts.in_training(event) and all(isinstance(obj, Zero) for obj in event.receiver.objs)
    return plain and (event.receiver_node is None or not is_of_a_module(facts, event.receiver_node))


def is_of_a_module(facts: Facts, node: cst.BaseExpression) -> bool:
    """`model.scale`: whatever it is, modules know of it."""
    holders = facts.value(node.value).objs if isinstance(node, cst.Attribute) else ()
    return any(is_module(core(obj)) for obj in holders)
