"""Figures of a rank's own samples that training is steered by, and no test: a bound, a rate, a seed, how often, which
of some. And what a text that is run may do to it.

What a branch decides is asked by `agreement.py`, and a rate that is set by `differing.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.decisions.base import Decisions, Link
from distify_codemods.decisions.own_gradients import is_of_a_module
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.libraries import drawing, python, seeding, torch_nn, torch_optim
from distify_codemods.naming import brief
from distify_codemods.objects import Bound, External, Function, Instance, Mapping, Parameters, Sequence
from distify_codemods.origins import Verdict
from distify_codemods.program import Module
from distify_codemods.scale import FIGURES, PER_SAMPLE, Scale
from distify_codemods.values import Value

_OF_ENTRIES = PER_SAMPLE | {Scale.SLOPES, Scale.REDUCED}
#: What a number of an index may choose among, so that another one is another course of training.
_COURSES = (Function, Bound, Instance, External)


def links(decisions: Decisions) -> Iterator[Link]:
    facts = decisions.facts
    for module, node in _steered(facts) if facts.training_loops else ():
        yield Link(
            module, node,
            f"`{brief(node)}` steers training by what each rank makes of its own samples, so that ranks would go "
            "different ways",
            "means, and what names of the training loop add up, can be put together over the ranks",
        )  # fmt: skip
    for event in facts.calls(python.RUNS_A_TEXT) if facts.training_loops else ():
        if facts.in_training(event):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` runs a text, and what that does with the samples is not seen",
                "what stands in the script itself is followed",
            )  # fmt: skip


def _steered(facts: Facts) -> Iterator[tuple[Module, cst.CSTNode]]:
    for event in facts.of_kind(Kind.CALL, Kind.METHOD):
        if (
            facts.in_training(event)
            and _steers(facts, event)
            and any(_is_own(facts, one) for one in event.arguments.all())
        ):
            yield event.module, event.node
    for module in facts.run.frames:
        for node in module.parents:
            if isinstance(node, cst.Subscript) and _chooses(facts, node):
                yield module, node


def _is_own(facts: Facts, value: Value) -> bool:
    """A number, or a verdict, that is another one on each rank."""
    figure = value.scale not in _OF_ENTRIES and (value.scale is not Scale.CONST or _is_verdict(value))
    return figure and bool(facts.shares_of_training(value))


def _is_verdict(value: Value) -> bool:
    return any(isinstance(obj, Verdict) for obj in value.objs)


def _steers(facts: Facts, event: Event) -> bool:
    """Whether it changes gradients, parameters or how these are trained, or says how often that is done."""
    if event.kind is Kind.CALL:
        if event.name in python.NUMBERS:
            return _goes_through_steps(facts, event)
        return event.name.startswith((torch_nn.CLIPS, torch_optim.OWN)) or seeding.is_seeding(event.name)
    if event.name in drawing.SEEDING_METHODS:
        return True
    held = any(isinstance(obj, Parameters) for obj in event.receiver.objs)
    held = held or (event.receiver_node is not None and is_of_a_module(facts, event.receiver_node))
    return held and event.name == torch_nn.FREEZES


def _goes_through_steps(facts: Facts, event: Event) -> bool:
    """`for _ in range(int(4 * loss)): ... loss.backward()`"""
    loop = event.module.parents.get(event.node)
    return isinstance(loop, cst.For) and loop.iter is event.node and any(
        here.node is loop for step in (*facts.backwards, *facts.steps) for here in step.here.up()
    )  # fmt: skip


def _chooses(facts: Facts, node: cst.Subscript) -> bool:
    """`criteria[int(loss < 1)]`: one of several functions, models or optimizers."""
    held = [obj for obj in facts.value(node.value).objs if isinstance(obj, (Sequence, Mapping))]
    if not held or not isinstance(node.slice[0].slice, cst.Index) or len(node.slice) > 1:
        return False
    key = node.slice[0].slice.value
    chosen = facts.value(node).objs
    courses = len(chosen) > 1 and all(isinstance(obj, _COURSES) for obj in chosen)
    figure = facts.value(node).scale in FIGURES and not any(isinstance(obj, Mapping) for obj in held)
    return (courses or figure) and _is_own(facts, facts.value(key))
