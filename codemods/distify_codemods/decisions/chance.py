"""Where chance decides what a model computes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Link
from distify_codemods.facts import Facts
from distify_codemods.naming import brief
from distify_codemods.program import Module


def decided_by_chance(facts: Facts) -> Iterator[Link]:
    """Layers that are left out at random: for the whole batch in one process, for its share on each rank."""
    functions: dict[cst.CSTNode, Module] = {}
    loops = [loop.event for loop in facts.training_loops]
    for event in facts.run.events:
        if event.grad and facts.in_a_model(event) and any(map(event.inside, loops)):
            functions.setdefault(event.here.frame.node, event.module)
    for function, module in functions.items():
        for node in tree.walk(function):
            tests = [one.test for one in node.ifs] if isinstance(node, cst.CompFor) else []
            tests += [node.test] if isinstance(node, (cst.If, cst.While, cst.IfExp)) else []
            tests += [node.iter] if isinstance(node, cst.For) else []
            for test in tests:
                if any(_is_drawn(facts, part) for part in _looked_at(facts, test)):
                    yield Link(
                        module, test,
                        f"`{brief(test)}` decides by chance what the model computes, for the whole batch at once: "
                        "ranks would decide apart",
                        "one number that is compared at once, as in `random.random() < 0.1`, is rank 0's for all",
                    )  # fmt: skip


def _is_drawn(facts: Facts, node: cst.BaseExpression) -> bool:
    return "random" in facts.value(node).sources


#: What is asked of a tensor without looking at its numbers.
_FORM = frozenset(
    "shape size dim ndim numel device dtype is_cuda requires_grad training len isinstance hasattr is_tensor "
    "is_floating_point ndimension".split()
)


def _looked_at(facts: Facts, test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The parts of a test whose numbers decide: not `noise is None`, nor `x.shape[0] > 1`."""
    if not _is_drawn(facts, test):
        return  # nothing random, or rank 0's for all
    if isinstance(test, cst.Comparison):
        if not any(isinstance(one.operator, (cst.Is, cst.IsNot)) for one in test.comparisons):
            for one in (test.left, *(each.comparator for each in test.comparisons)):
                yield from _looked_at(facts, one)
    elif isinstance(test, cst.BooleanOperation):
        yield from (*_looked_at(facts, test.left), *_looked_at(facts, test.right))
    elif isinstance(test, cst.UnaryOperation):
        yield from _looked_at(facts, test.expression)
    else:
        asked = {node.attr.value for node in tree.walk(test) if isinstance(node, cst.Attribute)}
        asked |= {
            node.func.value
            for node in tree.walk(test)
            if isinstance(node, cst.Call) and isinstance(node.func, cst.Name)
        }
        if not asked & _FORM:
            yield test
