"""Loaders, or models, of which a run of the program makes one, never two: by a branch, or by what a name stands for."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import libcst as cst

from distify_codemods.decisions.several import REPEATING, around, function_around, runs_once
from distify_codemods.facts import Facts
from distify_codemods.ordered import Ordered
from distify_codemods.values import NOTHING, CallChain, Function, Instance, Obj, Turn

#: How an object comes to be made, once: of each branch and call on the way, reached by a chain of calls, what is taken.
#: An arm or the function that is run; and at the end the class, or the name of something of a library's.
_Way = dict[tuple[CallChain, cst.CSTNode], tuple[cst.CSTNode | None, object]]


def one_of(facts: Facts, objs: Iterable[Obj]) -> bool:
    return all(_exclude(*pair) for pair in combinations([_way_to(facts, obj) for obj in objs], 2))


def made_instead(facts: Facts, model: Obj) -> Ordered[Obj]:
    """The other trained models that no run makes which makes this one."""
    way = _way_to(facts, model)
    return Ordered(other for other in facts.models if other is not model and _exclude(way, _way_to(facts, other)))


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
        for outer, inner in around(module, node):
            if isinstance(outer, REPEATING):
                return None  # one object in one turn, and another in the next
            if isinstance(outer, (cst.If, cst.IfExp)):
                way[chain, outer] = inner, None
        if node is obj.site:
            way[chain, node] = _made_by(obj)
        elif runs_once(facts, steps, depth) or _trains_in(facts, CallChain(steps[: depth + 1])):
            way[chain, node] = _function_of(facts, steps[depth + 1]), None
        else:
            return None
    return way


def _trains_in(facts: Facts, chain: CallChain) -> bool:
    """Whether all training is in the course of a call: in each run of it, there is one way."""
    return all(loop.event.here.frame.context[: len(chain)] == chain for loop in facts.training_loops)


def _function_of(facts: Facts, step: cst.CSTNode | Turn) -> cst.CSTNode | None:
    return function_around(facts, step) if isinstance(step, cst.CSTNode) else None


def _made_by(obj: Obj) -> tuple[cst.CSTNode | None, object]:
    """The function that runs when it is made, and its class; or a library's name."""
    if not isinstance(obj, Instance) or obj.of is None:
        return None, getattr(obj, "name", type(obj))
    own = next((one.attributes["__init__"] for one in obj.of.order() if "__init__" in one.attributes), NOTHING)
    return next((one.node for one in own.objs if isinstance(one, Function)), None), obj.of
