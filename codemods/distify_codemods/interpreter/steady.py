"""Branches that go the same way in all turns of a loop: what another arm would have kept of a batch was never there.

`if args.kind == "a": given = x` and `elif args.kind == "b": given = 2 * x`: where neither is taken, neither was before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.objects import Setting
from distify_codemods.ordered import Ordered
from distify_codemods.origins import Outlived, Pooled
from distify_codemods.program import Module
from distify_codemods.values import NOTHING

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_KEPT = (Outlived, Pooled)


def forget(machine: Machine, branch: cst.If, arm: cst.CSTNode | None) -> None:
    """An arm begins, None: the one that is not written. What only others give a name is not an earlier batch's."""
    if machine.pooling is None:
        return
    env = machine.frame.env
    marked = [name for name, value in env.items() if any(isinstance(one, _KEPT) for one in value.sources)]
    if not marked:
        return
    module = machine.frame.module
    loop = _outermost(module, branch)
    left_out = set(_left_out(machine, branch, arm, loop)) if loop is not None else set()
    if loop is None or not left_out:
        return
    elsewhere = {name for inner in tree.walk(module.tree) for name in _of_other_scopes(inner)}
    for name in marked:
        if left_out.issuperset(module.flow(loop).bindings(loop, name)) and name not in elsewhere:
            gone = {one for one in env[name].sources if isinstance(one, _KEPT) and one.site in left_out}
            env[name] = env[name].with_sources(Ordered(one for one in env[name].sources if one not in gone))


def _left_out(machine: Machine, branch: cst.If, arm: cst.CSTNode | None, loop: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What no turn comes to if one comes to this arm: other arms of the branch, and of those around it."""
    inner: cst.CSTNode | None = arm
    for outer in (branch, *machine.frame.module.enclosing(branch)):
        if isinstance(outer, cst.If):
            if not _is_steady(machine, outer.test, loop):
                return
            for other in (outer.body, outer.orelse):
                if other is not None and other is not inner:
                    yield from tree.walk(other)
        if outer is loop:
            return
        inner = outer


def _of_other_scopes(node: cst.CSTNode) -> list[str]:
    return [one.name.value for one in node.names] if isinstance(node, (cst.Global, cst.Nonlocal)) else []


def _outermost(module: Module, node: cst.CSTNode) -> cst.For | cst.While | None:
    """The outermost loop around it in its function: what a call leaves of its names, no other finds."""
    loop = None
    for outer in module.enclosing(node):
        if isinstance(outer, (cst.FunctionDef, cst.Lambda)):
            break
        loop = outer if isinstance(outer, (cst.For, cst.While)) else loop
    return loop


def _is_steady(machine: Machine, test: cst.BaseExpression, loop: cst.CSTNode) -> bool:
    """Whether a test asks for options of the command line alone, and compares them with what is written there."""
    if isinstance(test, cst.BooleanOperation):
        return _is_steady(machine, test.left, loop) and _is_steady(machine, test.right, loop)
    if isinstance(test, cst.UnaryOperation):
        return _is_steady(machine, test.expression, loop)
    if isinstance(test, cst.Comparison):
        return all(
            _is_steady(machine, one, loop) for one in (test.left, *(each.comparator for each in test.comparisons))
        )
    if isinstance(test, (cst.Tuple, cst.List, cst.Set)):
        return all(_is_steady(machine, one.value, loop) for one in test.elements)
    if isinstance(test, (cst.SimpleString, cst.Integer, cst.Float)):
        return True
    if isinstance(test, cst.Name) and test.value in ("None", "True", "False"):
        return True
    value = machine.values.get(test, NOTHING)
    of_settings = bool(value.objs) and all(isinstance(obj, Setting) for obj in value.objs)
    return of_settings and isinstance(test, (cst.Name, cst.Attribute)) and not _is_set(test, loop)


def _is_set(node: cst.Name | cst.Attribute, loop: cst.CSTNode) -> bool:
    """Whether something in the loop gives it, or what it is an attribute of, another value."""
    whole, attributes = node, set[str]()
    while isinstance(node, cst.Attribute):
        attributes.add(node.attr.value)
        if not isinstance(node.value, (cst.Name, cst.Attribute)):
            return True
        node = node.value
    for inner in tree.walk(loop):
        if node.value in tree.bound_names(inner):
            return True
        if (
            isinstance(inner, cst.Call)
            and isinstance(inner.func, cst.Attribute)
            and inner.func.value.deep_equals(whole)
        ):
            return True  # `args.kinds.append(…)`
        target = inner.target if isinstance(inner, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign)) else None
        if isinstance(target, cst.Attribute) and target.attr.value in attributes:
            return True
    return False
