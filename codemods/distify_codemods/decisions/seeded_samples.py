"""Generators with a seed that a data set, or a transform, draws from for each of its samples.

They are made alike on all ranks, so that the first sample of each rank would be given the same numbers, and so on. A
generator that is made or seeded for the sample, by its index, say, is right.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Link
from distify_codemods.facts import Facts
from distify_codemods.inside import made_of, root
from distify_codemods.libraries import drawing
from distify_codemods.naming import brief
from distify_codemods.objects import External, Function, Instance

#: What is called for each sample.
_FOR_A_SAMPLE = ("__getitem__", "__call__", "forward")


def links(facts: Facts) -> Iterator[Link]:
    given = [one.arguments.get("dataset", 0) for one in facts.loaders if one.obj in facts.training_loaders]
    for value in made_of(one for one in given if one is not None):
        for obj in value.objs:
            generators = _generators(obj) if isinstance(obj, Instance) else set()
            for function, call in _draws(obj, generators) if isinstance(obj, Instance) and generators else ():
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


def _draws(obj: Instance, generators: set[str]) -> Iterator[tuple[Function, cst.Call]]:
    """Where they are drawn from, in what is called for a sample and in the methods which that calls."""
    left, seen = list(_FOR_A_SAMPLE), set[str]()
    found: list[tuple[Function, cst.Call]] = []
    while left:
        name = left.pop()
        member = obj.of.member(name) if obj.of is not None and name not in seen else None
        seen.add(name)
        for function in member.objs if member is not None else ():
            if not isinstance(function, Function) or function.node is None:
                continue
            for node in tree.walk(function.node):
                own = _own(node)
                if isinstance(node, cst.Call) and _draws_from(node, generators):
                    found.append((function, node))
                elif (own in generators and _is_renewed(function, node)) or _seeds(node, generators):
                    return
                elif own is not None:
                    left.append(own)
    yield from found


def _own(node: cst.CSTNode) -> str | None:
    """`rng` of `self.rng`"""
    whole = isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self"
    return node.attr.value if whole and isinstance(node, cst.Attribute) else None


def _draws_from(call: cst.Call, generators: set[str]) -> bool:
    """`self.rng.normal()`, `torch.rand(4, generator=self.rng)`"""
    if isinstance(call.func, cst.Attribute) and _own(call.func.value) in generators:
        return drawing.is_drawing_method(call.func.attr.value)
    return any(
        one.keyword is not None and one.keyword.value in drawing.OWN_STREAM and _own(one.value) in generators
        for one in call.args
    )


def _seeds(node: cst.CSTNode, generators: set[str]) -> bool:
    """`self.rng.manual_seed(index)`"""
    called = node.func if isinstance(node, cst.Call) else None
    return (
        isinstance(called, cst.Attribute)
        and _own(called.value) in generators
        and called.attr.value in drawing.SEEDING_METHODS
    )


def _is_renewed(function: Function, node: cst.CSTNode) -> bool:
    """`self.rng = random.Random(index)`"""
    holder = function.module.parents.get(node) if function.module is not None else None
    return isinstance(holder, (cst.AssignTarget, cst.AnnAssign)) and holder.target is node
