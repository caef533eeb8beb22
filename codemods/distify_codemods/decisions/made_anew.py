"""What a name stands for that a function, or a turn of a loop, has made for itself: a list, a tensor of given sizes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.decisions.of_before import is_set
from distify_codemods.facts import Facts
from distify_codemods.libraries import python, torch_tensors
from distify_codemods.program import Module

#: What holds a name's object as it is.
_AROUND = (cst.Element, cst.StarredElement, cst.Tuple, cst.List, cst.Set, cst.DictElement, cst.Dict, cst.IfExp)
_DISPLAYS = (cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp, cst.SetComp)


def bindings(facts: Facts, module: Module, name: cst.Name) -> list[cst.CSTNode]:
    """Where a name that is read is bound, if each of these makes what it is bound to; nothing else.

    `rows += [x]` adds to what another one of them has made.
    """
    found = [one for one in module.flow(name).reaching(name) if not _adds_to(module, one)]
    is_alone = all(_makes(facts, module, one) for one in found) and not _is_put_elsewhere(module, name)
    return found if is_alone else []


def is_gone_with_the_call(facts: Facts, module: Module, holder: cst.BaseExpression) -> bool:
    """Whether it is a name of what the function has made; whoever gets that from it, and keeps it, does so there."""
    return isinstance(holder, cst.Name) and bool(bindings(facts, module, holder))


def _is_put_elsewhere(module: Module, name: cst.Name) -> bool:
    """Whether something else may come to hold the same object: `self.rows = rows`, `kept.append(rows)`."""
    return any(_is_given_away(module, *one) for one in _holders(module, name))


def _holders(module: Module, name: cst.Name) -> Iterator[tuple[cst.CSTNode, cst.CSTNode | None]]:
    """Where the name stands in its function, with what holds it there: `kept = rows, 0`."""
    for one in tree.walk(module.function(name)):
        if isinstance(one, cst.Name) and one.value == name.value:
            used: cst.CSTNode = one
            holder = module.parents.get(used)
            while isinstance(holder, _AROUND):
                used, holder = holder, module.parents.get(holder)
            yield used, holder


def _is_given_away(module: Module, used: cst.CSTNode, holder: cst.CSTNode | None) -> bool:
    if isinstance(holder, (cst.Assign, cst.AnnAssign, cst.NamedExpr)):
        return holder.value is used
    call = module.parents.get(holder) if isinstance(holder, cst.Arg) else None
    keeps = isinstance(call, cst.Call) and (tree.dotted(call.func) or "").rpartition(".")[2] in python.KEEPING_METHODS
    return keeps or isinstance(holder, cst.Yield)


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
    if not isinstance(value.func, cst.Attribute):
        return False
    method = value.func.attr.value
    is_same = method in torch_tensors.SAME_OR_COPIED and _is_new(facts, value.func.value)
    return is_same or method in torch_tensors.NEW_METHODS


def _makes_something_new(obj: Obj) -> bool:
    name = obj.name if isinstance(obj, Ref) else ""
    return torch_tensors.makes_by_sizes(name) or torch_tensors.makes_like(name) or name in python.NEW_CONTAINERS
