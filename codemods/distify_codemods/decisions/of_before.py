"""What a function may find in an attribute, an item or a name of others as an earlier call has left it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.program import Module

Assignment = cst.Assign | cst.AnnAssign | cst.AugAssign
ASSIGNMENTS = (cst.Assign, cst.AnnAssign, cst.AugAssign)
STATEMENTS = (cst.BaseSmallStatement, cst.BaseCompoundStatement)


def names_of_others(function: cst.FunctionDef) -> set[str]:
    """Names that it declares to be those of the module, or of a function around."""
    declared = [one for one in tree.walk(function.body) if isinstance(one, (cst.Global, cst.Nonlocal))]
    return {item.name.value for one in declared for item in one.names}


def may_be_of_before(module: Module, node: cst.CSTNode, place: cst.BaseExpression) -> bool:
    """Whether control may come to a node with no value put into an attribute, or into what it is one of."""
    names = [tree.code_of(one) for one in tree.inwards(place) if isinstance(one, (cst.Attribute, cst.Subscript))]
    if isinstance(place, cst.Name) and is_set(node, place):
        names = [place.value]
    statement = next(one for one in (node, *module.enclosing(node)) if isinstance(one, STATEMENTS))
    return all(module.flow(statement).may_be_as_before(statement, name) for name in names)


def is_set(node: cst.CSTNode, place: cst.CSTNode) -> bool:
    """Whether a statement assigns to it."""
    return isinstance(node, ASSIGNMENTS) and any(
        leaf is place for one in tree.targets(node) for leaf in tree.leaves(one)
    )  # fmt: skip


def reads_of(module: Module, place: cst.BaseExpression, within: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Where it is read; `rows[0] += 1` reads it, too, and so may `rows.get(0)`, `0 in rows`, `f(rows)`."""
    name, whole = tree.code_of(place), tree.code_of(place.value) if isinstance(place, cst.Subscript) else None
    for one in tree.walk(within):
        if isinstance(one, cst.Call) and _asked_by_name(one) == name:
            yield one
        elif isinstance(one, (cst.Attribute, cst.Subscript, cst.Name)) and not _is_target(module, one):
            code = tree.code_of(one)
            if code == name or (code == whole and not _is_held(module, one)):
                yield one


def _asked_by_name(call: cst.Call) -> str | None:
    """`self.top` of `getattr(self, "top", None)`"""
    if not isinstance(call.func, cst.Name) or call.func.value not in ("getattr", "hasattr") or len(call.args) < 2:
        return None
    name = tree.string(call.args[1].value)
    return name and f"{tree.code_of(call.args[0].value)}.{name}"


def _is_held(module: Module, node: cst.CSTNode) -> bool:
    """`rows` of `rows[0]`"""
    holder = module.parents.get(node)
    return isinstance(holder, cst.Subscript) and holder.value is node


def _is_target(module: Module, node: cst.CSTNode) -> bool:
    around = next((one for one in module.enclosing(node) if isinstance(one, STATEMENTS)), None)
    return isinstance(around, (cst.Assign, cst.AnnAssign)) and is_set(around, node)
