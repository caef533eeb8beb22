"""What an expression is another name of, or a view of: `labels = data.tensors[1].numpy()`, a function's parameter."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.answers import answered_once
from distify_codemods.control_flow import parameters_of
from distify_codemods.decisions.passes import Callable, functions_of
from distify_codemods.facts import Facts
from distify_codemods.libraries import in_place
from distify_codemods.objects import Function
from distify_codemods.program import Module

_Place = tuple[Module, cst.BaseExpression]


def origins(facts: Facts, module: Module, node: cst.BaseExpression | None) -> Iterator[_Place]:
    """The expression, what it is an attribute, an item or a view of, and the same of what its names were given."""
    left, seen = [(module, node)] if node is not None else [], set[cst.CSTNode]()
    while left:
        where, one = left.pop()
        for part in tree.inwards(one):
            if part in seen or (isinstance(part, cst.Call) and not _is_a_view(part)):
                break
            seen.add(part)
            yield where, part
            if isinstance(part, cst.Name):
                left += _given(facts, where, part)


def _is_a_view(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in in_place.VIEWS


def _given(facts: Facts, module: Module, read: cst.Name) -> Iterator[_Place]:
    for binding in module.flow(read).reaching(read) or _at_the_top(module, read):
        if isinstance(binding, cst.Param):
            yield from given_to(facts, module, binding)
        holder = module.parents.get(binding)
        assigned = module.parents.get(holder) if isinstance(holder, cst.AssignTarget) else holder
        if isinstance(assigned, (cst.Assign, cst.AnnAssign)) and assigned.value is not None:
            yield module, assigned.value


def _at_the_top(module: Module, read: cst.Name) -> list[cst.CSTNode]:
    """A name of the module, in one of its functions."""
    return module.flow(module.tree.body[0]).bindings(module.tree, read.value) if module.tree.body else []


def given_to(facts: Facts, module: Module, parameter: cst.Param) -> Iterator[_Place]:
    """What the calls of its function that are seen give a parameter."""
    function = module.function(parameter.name)
    if not isinstance(function, (cst.FunctionDef, cst.Lambda)):
        return
    names = [one.name.value for one in parameters_of(function)]
    place, name = names.index(parameter.name.value), parameter.name.value
    for where, call, bound in _calls(facts).get(function, ()):
        plain = [one for one in call.args if one.keyword is None and not one.star]
        named = tree.keywords(call).get(name)
        if named is not None:
            yield where, named
        elif 0 <= place - bound < len(plain):
            yield where, plain[place - bound].value


@answered_once
def _calls(facts: Facts) -> dict[Callable, list[tuple[Module, cst.Call, bool]]]:
    """Of functions of the script, the calls; and whether their first parameter is what the method is called on."""
    found: dict[Callable, list[tuple[Module, cst.Call, bool]]] = {}
    for node in facts.run.values:
        if isinstance(node, cst.Call):
            value = facts.value(node.func)
            for function in functions_of(value):
                bound = isinstance(function, cst.FunctionDef) and not _is_plain(facts, node, function)
                found.setdefault(function, []).append((facts.module_of(node), node, bound))
    return found


def _is_plain(facts: Facts, call: cst.Call, function: cst.FunctionDef) -> bool:
    return any(isinstance(one, Function) and one.node is function for one in facts.value(call.func).objs)
