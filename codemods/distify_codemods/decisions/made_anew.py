"""What a name stands for that a function, or a turn of a loop, has made for itself: a list, a tensor of given sizes."""

from __future__ import annotations

import libcst as cst

from distify_codemods.allocation import Obj, Ref
from distify_codemods.decisions.of_before import is_set
from distify_codemods.facts import Facts
from distify_codemods.libraries import python, torch_tensors
from distify_codemods.program import Module

_DISPLAYS = (cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp, cst.SetComp)


def bindings(facts: Facts, module: Module, name: cst.Name) -> list[cst.CSTNode]:
    """Where a name that is read is bound, if each of these makes what it is bound to; nothing else.

    `rows += [x]` adds to what another one of them has made.
    """
    found = [one for one in module.flow(name).reaching(name) if not _adds_to(module, one)]
    return found if all(_makes(facts, module, one) for one in found) else []


def _adds_to(module: Module, bound: cst.CSTNode) -> bool:
    holder = module.parents.get(bound)
    return isinstance(holder, cst.AugAssign) and is_set(holder, bound)


def _makes(facts: Facts, module: Module, bound: cst.CSTNode) -> bool:
    """Whether the name is set, by itself, to something that is made there."""
    holder = module.parents.get(bound)
    target, holder = holder, module.parents.get(holder) if isinstance(holder, cst.AssignTarget) else holder
    assigned = isinstance(target, cst.AssignTarget) or isinstance(holder, cst.AnnAssign)
    value = holder.value if assigned and isinstance(holder, (cst.Assign, cst.AnnAssign)) else None
    return value is not None and _is_new(facts, value)


def _is_new(facts: Facts, value: cst.BaseExpression) -> bool:
    if isinstance(value, _DISPLAYS):
        return True
    if not isinstance(value, cst.Call):
        return False
    called = facts.value(value.func).objs
    if called and all(map(_makes_something_new, called)):
        return True
    method = value.func.attr.value if isinstance(value.func, cst.Attribute) else ""
    if method in torch_tensors.NEW_METHODS:
        return True
    of_it = isinstance(value.func, cst.Attribute) and method in torch_tensors.SAME_OR_COPIED
    return of_it and isinstance(value.func, cst.Attribute) and _is_new(facts, value.func.value)


def _makes_something_new(obj: Obj) -> bool:
    name = obj.name if isinstance(obj, Ref) else ""
    return torch_tensors.makes_by_sizes(name) or torch_tensors.makes_like(name) or name in python.NEW_CONTAINERS
