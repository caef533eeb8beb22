"""Loaders, or models, of which a run of the program makes one, never two: by a branch, or by what a name stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

import libcst as cst

from distify_codemods.facts import Facts
from distify_codemods.program import Module
from distify_codemods.values import NOTHING, CallChain, Function, Instance, Obj, Turn

#: What may make one object in one turn and another in the next.
_REPEATING = (cst.For, cst.While, cst.BaseComp)
_FUNCTIONS = (cst.FunctionDef, cst.Lambda)

#: How an object comes to be made, once: of each branch and call on the way, reached by a chain of calls, what is taken.
#: An arm or the function that is run; and at the end the class, or the name of something of a library's.
_Way = dict[tuple[CallChain, cst.CSTNode], tuple[cst.CSTNode | None, object]]


def one_of(facts: Facts, objs: Iterable[Obj]) -> bool:
    return all(_exclude(*pair) for pair in combinations([_way_to(facts, obj) for obj in objs], 2))


def made_instead(facts: Facts, model: Obj) -> frozenset[Obj]:
    """The other trained models that no run makes which makes this one."""
    way = _way_to(facts, model)
    return frozenset(other for other in facts.models if other is not model and _exclude(way, _way_to(facts, other)))


def _exclude(one: _Way | None, other: _Way | None) -> bool:
    if one is None or other is None:
        return False
    return any(key in other and _differ(other[key], taken) for key, taken in one.items())


def _differ(one: tuple[cst.CSTNode | None, object], other: tuple[cst.CSTNode | None, object]) -> bool:
    both_end_here = one[1] is not None and other[1] is not None
    return one[1] != other[1] if both_end_here else one[0] is not other[0]


def _way_to(facts: Facts, obj: Obj) -> _Way | None:
    if obj.site is None:
        return None
    steps = (*obj.context, obj.site)
    way: _Way = {}
    for depth, node in enumerate(steps):
        if not isinstance(node, cst.CSTNode):
            return None  # in one turn of a loop
        module, chain = facts.module_of(node), CallChain(steps[:depth])
        for outer, inner in _around(module, node):
            if isinstance(outer, _REPEATING):
                return None
            if isinstance(outer, (cst.If, cst.IfExp)):
                way[chain, outer] = inner, None
        way[chain, node] = _made_by(obj) if node is obj.site else (_function_of(facts, steps[depth + 1]), None)
    return way


def _function_of(facts: Facts, inside: cst.CSTNode | Turn) -> cst.CSTNode | None:
    enclosing = facts.module_of(inside).enclosing(inside) if isinstance(inside, cst.CSTNode) else ()
    return next((outer for outer in enclosing if isinstance(outer, _FUNCTIONS)), None)


def _made_by(obj: Obj) -> tuple[cst.CSTNode | None, object]:
    """The function that runs when it is made, and its class; or a library's name."""
    if not isinstance(obj, Instance) or obj.of is None:
        return None, getattr(obj, "name", type(obj))
    own = next((one.attributes["__init__"] for one in obj.of.order() if "__init__" in one.attributes), NOTHING)
    return next((one.node for one in own.objs if isinstance(one, Function)), None), obj.of


def _around(module: Module, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """What is around a node within its function, each with the part of it that the node is in."""
    inner = node
    for outer in module.enclosing(node):
        if isinstance(outer, _FUNCTIONS):
            return
        yield outer, inner
        inner = outer
