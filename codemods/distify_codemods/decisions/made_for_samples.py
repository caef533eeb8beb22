"""What a loader calls for each sample, which no run follows: the methods of its data set, and of what that holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.facts import Facts
from distify_codemods.interpreter import sampling
from distify_codemods.interpreter.sampling import FOR_A_SAMPLE
from distify_codemods.objects import External, Function, Instance


def makers(facts: Facts) -> Iterator[Instance]:
    """The data sets of training, and objects of the script's that these hold, such as transforms."""
    return _makers(one.obj for one in facts.loaders if one.obj in facts.training_loaders)


def of_all_loaders(facts: Facts) -> Iterator[Instance]:
    """The same, of evaluation as well."""
    return _makers(one.obj for one in facts.loaders)


def _makers(loaders: Iterable[External]) -> Iterator[Instance]:
    yield from dict.fromkeys(obj for loader in loaders for obj in sampling.makers(loader))


def functions_of(obj: Instance) -> Iterator[Function]:
    """What is called for a sample, and the methods which that calls."""
    left, seen = list(FOR_A_SAMPLE), set[str]()
    while left:
        name = left.pop()
        member = obj.of.member(name) if obj.of is not None and name not in seen else None
        seen.add(name)
        for function in member.objs if member is not None else ():
            if isinstance(function, Function) and isinstance(function.node, cst.FunctionDef):
                yield function
                left += filter(None, map(attribute_of_self, tree.walk(function.node)))


def attribute_of_self(node: cst.CSTNode) -> str | None:
    """`rng` of `self.rng`"""
    whole = isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self"
    return node.attr.value if whole and isinstance(node, cst.Attribute) else None
