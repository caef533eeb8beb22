"""Loaders, or models, of which a run of the program makes one, never two: by a branch, or by what a name stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import CallChain, Const, Obj, Turn
from distify_codemods.callables import methods
from distify_codemods.decisions.several import REPEATING, around, function_around, runs_once
from distify_codemods.facts import Facts
from distify_codemods.libraries import torch_data
from distify_codemods.objects import External, Instance, Setting
from distify_codemods.ordered import Ordered
from distify_codemods.values import Value

#: How an object comes to be made, once: of each branch and call on the way, reached by a chain of calls, what is taken.
#: An arm or the function that is run; and at the end the class, or the name of something of a library's.
_Way = dict[tuple[CallChain, cst.CSTNode], tuple[cst.CSTNode | None, object]]
_TRIES = (cst.Try, cst.TryStar)


def one_of(facts: Facts, loaders: Iterable[External]) -> bool:
    """Whether a run deals out the batches of one of them; where another fails, no others than that would."""
    ways = [(_way_to(facts, loader), loader) for loader in loaders]
    return all(
        _exclude(one, other) or (_exclude(one, other, _TRIES) and _deal_alike(mine, its))
        for (one, mine), (other, its) in combinations(ways, 2)
    )


def made_instead(facts: Facts, model: Obj) -> Ordered[Obj]:
    """The other trained models that no run makes which makes this one."""
    way = _way_to(facts, model)
    return Ordered(other for other in facts.models if other is not model and _exclude(way, _way_to(facts, other)))


def _exclude(one: _Way | None, other: _Way | None, tries: tuple[type[cst.CSTNode], ...] = ()) -> bool:
    """`tries`: by what fails, too. One rank may fail where the others do not."""
    if one is None or other is None:
        return False
    return any(
        key in other and _differ(other[key], taken)
        for key, taken in one.items() if isinstance(key[1], tries) or not isinstance(key[1], _TRIES)
    )  # fmt: skip


# ---- loaders of which one takes the place of another that could not be made


def _deal_alike(one: External, other: External) -> bool:
    """Whether two loaders deal out the same batches, by whatever workers: which of them it is may differ by rank."""
    mine, its = _dealing(one), _dealing(other)
    return mine is not None and its is not None and mine.keys() == its.keys() and all(
        _is_same(value, its[name]) for name, value in mine.items()
    )  # fmt: skip


def _dealing(loader: External) -> dict[str, Value] | None:
    given = loader.arguments
    if given is None or given.star is not None or given.double_star is not None:
        return None
    found = {**dict(zip(torch_data.PARAMETERS, given.positional, strict=False)), **given.keywords}
    return {name: value for name, value in found.items() if name not in torch_data.HOW_SOON}


def _is_same(one: Value, other: Value) -> bool:
    """Whether two expressions are seen to be one thing, or literals that are equal."""
    if one.open or other.open or not one.objs:
        return False
    mine, its = one.single(), other.single()
    if isinstance(mine, Const) and isinstance(its, Const):
        return type(mine.value) is type(its.value) and mine.value == its.value
    if isinstance(mine, Setting) and isinstance(its, Setting):
        return mine.name == its.name
    return mine is not None and mine is its


def _arm_of(attempt: cst.Try | cst.TryStar, inner: cst.CSTNode) -> cst.CSTNode | None:
    """The part of a `try` that something is made in; none where it may have been made before another part is run."""
    if inner is not attempt.body:
        return inner if inner in attempt.handlers else None
    return attempt.body if all(_replaces(one, attempt.body) for one in attempt.handlers) else None


def _replaces(handler: cst.ExceptHandler | cst.ExceptStarHandler, body: cst.BaseSuite) -> bool:
    """Whether what comes after a handler finds nothing that the body has made: it gives all names anew, or leaves."""
    first, later = _simple(body.body[:-1]), _simple(handler.body.body)
    if later is not None and later and isinstance(later[-1], (cst.Raise, cst.Return)):
        return True
    if first is None or not all(isinstance(one, cst.Assign) or _only_looks(one) for one in first):
        return False
    return _given(first) <= _given(later or [])


def _simple(statements: Sequence[cst.CSTNode]) -> list[cst.BaseSmallStatement] | None:
    """None where not all of them are simple ones."""
    if not all(isinstance(one, cst.SimpleStatementLine) for one in statements):
        return None
    return [small for one in statements if isinstance(one, cst.SimpleStatementLine) for small in one.body]


def _given(statements: Sequence[cst.BaseSmallStatement]) -> set[str]:
    """The names, attributes and items that are assigned to."""
    targets = [each.target for one in statements if isinstance(one, cst.Assign) for each in one.targets]
    listed = [one for one in targets if isinstance(one, (cst.Tuple, cst.List))]
    parts = [element.value for one in listed for element in one.elements]
    return {tree.code_of(one) for one in (*parts, *(one for one in targets if one not in listed))}


def _only_looks(statement: cst.BaseSmallStatement) -> bool:
    """`next(iter(loader))`, a message, a docstring."""
    if not isinstance(statement, cst.Expr):
        return isinstance(statement, cst.Pass)
    calls = [node.func for node in tree.walk(statement) if isinstance(node, cst.Call)]
    return all(isinstance(one, cst.Name) and one.value in ("print", "next", "iter", "len") for one in calls)


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
            if isinstance(outer, _TRIES) and (arm := _arm_of(outer, inner)) is not None:
                way[chain, outer] = arm, None
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
    return next((one.node for one in methods(obj.of, "__init__")), None), obj.of
