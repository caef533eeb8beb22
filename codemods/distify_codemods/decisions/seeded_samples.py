"""Generators with a seed that a data set, or a transform, draws from for each of its samples.

They are made alike on all ranks, so that the first sample of each rank would be given the same numbers, and so on. A
generator that is made or seeded for the sample, by its index, say, is right.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Link
from distify_codemods.decisions.made_for_samples import attribute_of_self, functions_of, makers
from distify_codemods.facts import Facts
from distify_codemods.inside import root
from distify_codemods.libraries import drawing
from distify_codemods.naming import brief
from distify_codemods.objects import External, Function, Instance


def links(facts: Facts) -> Iterator[Link]:
    for obj in makers(facts):
        generators = _generators(obj)
        for function, call in _draws(obj, generators) if generators else ():
            if function.module is not None:
                yield Link(
                    function.module, call,
                    f"`{brief(call)}` draws for a sample from a generator that has the same seed on all ranks: the "
                    "same numbers for other samples",
                    "what is drawn from the script's own streams, or from a generator that is seeded by the "
                    "sample's index, is each sample's own",
                )  # fmt: skip


def _generators(obj: Instance) -> set[str]:
    """The attributes that hold one."""
    held = {name: [root(one) for one in value.objs] for name, value in obj.attributes.items()}
    return {
        name for name, objs in held.items()
        if any(isinstance(one, External) and drawing.is_a_generator(one.name) for one in objs)
    }  # fmt: skip


def _draws(obj: Instance, generators: set[str]) -> list[tuple[Function, cst.Call]]:
    """Where they are drawn from, unless one of them is made or seeded for the sample."""
    found: list[tuple[Function, cst.Call]] = []
    for function in functions_of(obj):
        for node in tree.walk(function.node) if function.node is not None else ():
            if isinstance(node, cst.Call) and _draws_from(node, generators):
                found.append((function, node))
            elif _seeds(node, generators) or (attribute_of_self(node) in generators and _is_renewed(function, node)):
                return []
    return found


def _draws_from(call: cst.Call, generators: set[str]) -> bool:
    """`self.rng.normal()`, `torch.rand(4, generator=self.rng)`"""
    if isinstance(call.func, cst.Attribute) and attribute_of_self(call.func.value) in generators:
        return drawing.is_drawing_method(call.func.attr.value)
    return any(
        one.keyword is not None
        and one.keyword.value in drawing.OWN_STREAM
        and attribute_of_self(one.value) in generators
        for one in call.args
    )


def _seeds(node: cst.CSTNode, generators: set[str]) -> bool:
    """`self.rng.manual_seed(index)`"""
    called = node.func if isinstance(node, cst.Call) else None
    return (
        isinstance(called, cst.Attribute)
        and attribute_of_self(called.value) in generators
        and called.attr.value in drawing.SEEDING_METHODS
    )


def _is_renewed(function: Function, node: cst.CSTNode) -> bool:
    """`self.rng = random.Random(index)`"""
    holder = function.module.parents.get(node) if function.module is not None else None
    return isinstance(holder, (cst.AssignTarget, cst.AnnAssign)) and holder.target is node
