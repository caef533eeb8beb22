"""Functions of the script that change what they are given: `x[:] = 0`, `x += noise`, `x.clamp_(0)`.

A tensor of samples is followed under all of its names; another one under that of a parameter, by the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.marks import as_it_stands
from distify_codemods.facts import Facts
from distify_codemods.objects import Bound, Function

_DEEPEST = 3


def changes_what_it_takes(facts: Facts, call: cst.Call, depth: int = 0) -> bool:
    """Whether one of the functions that are called may change a tensor that is among their arguments."""
    # Where forward passes are shared, every rank has whole batches; and a program too large to follow has no other run.
    seen = facts if facts.run.trial.shared else as_it_stands(facts)
    storages = seen.run.machine.storages
    given = [source for one in call.args for source in seen.value(one.value).sources]
    if storages is not None and (call in storages.calls or not storages.in_calls.isdisjoint(given)):
        return True
    return any(_changes(facts, *body, depth) for body in _bodies(facts.value(call.func).objs))


def _bodies(objs: Iterable[Obj]) -> Iterator[tuple[cst.FunctionDef, bool]]:
    """The functions; and whether their first parameter is what the method is called on."""
    for obj in objs:
        function = obj.function if isinstance(obj, Bound) else obj
        if isinstance(function, Function) and isinstance(function.node, cst.FunctionDef):
            yield function.node, isinstance(obj, Bound)


def _changes(facts: Facts, function: cst.FunctionDef, bound: bool, depth: int) -> bool:
    known: dict[tuple[cst.FunctionDef, bool, int], bool] = facts.answers.setdefault(_changes, {})
    key = function, bound, depth
    if key not in known:
        known[key] = _changes_by_its_text(facts, *key)
    return known[key]


def _changes_by_its_text(facts: Facts, function: cst.FunctionDef, bound: bool, depth: int) -> bool:
    params = function.params
    named = [*params.posonly_params, *params.params, *params.kwonly_params][bound:]
    given = {one.name.value for one in named}
    for node in tree.walk(function.body):
        if isinstance(node, cst.AugAssign) and _root(node.target) in given:
            return True
        if isinstance(node, cst.AssignTarget) and not isinstance(node.target, cst.Name) and _root(node.target) in given:
            return True
        if isinstance(node, cst.Call):
            name = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
            if name.endswith("_") and not name.startswith("_") and _root(node.func) in given:
                return True
            passed = any(_root(argument.value) in given for argument in node.args)
            if passed and depth < _DEEPEST and changes_what_it_takes(facts, node, depth + 1):
                return True
    return False


def _root(node: cst.CSTNode) -> str:
    """The name that an attribute or item belongs to, in the end."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""
