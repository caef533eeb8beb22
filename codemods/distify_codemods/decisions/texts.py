"""What is made before it is shown or written: texts, `line = f"loss {loss:.3f}"`, and numbers, `ppl = exp(loss)`."""

from __future__ import annotations

import libcst as cst

from distify_codemods.program import Module

_STRINGS = (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString)
_MADE_BY = frozenset({"format", "join"})


def reckoned_before(module: Module, node: cst.Name) -> list[cst.BaseExpression]:
    """Of a name, all that it may have been given; nothing if it may have come to what it is in another way."""
    found: list[cst.BaseExpression] = []
    for binding in module.flow(node).reaching(node):
        target = module.parents.get(binding)
        holder = module.parents.get(target) if isinstance(target, cst.AssignTarget) else target
        named = isinstance(holder, cst.AnnAssign) or (isinstance(holder, cst.Assign) and len(holder.targets) == 1)
        if not named or not isinstance(holder, (cst.Assign, cst.AnnAssign)) or holder.value is None:
            return []
        found.append(holder.value)
    return found


def made_before(module: Module, node: cst.CSTNode) -> list[cst.BaseExpression]:
    """Of a name, all texts that it may stand for, and what was added to them; nothing if it may be anything else."""
    return (_behind(module, node, set()) if isinstance(node, cst.Name) else None) or []


def _behind(module: Module, name: cst.Name, seen: set[cst.CSTNode]) -> list[cst.BaseExpression] | None:
    found: list[cst.BaseExpression] = []
    for binding in module.flow(name).reaching(name):
        if binding in seen:
            continue
        seen.add(binding)
        target = module.parents.get(binding)
        holder = module.parents.get(target) if isinstance(target, cst.AssignTarget) else target
        if not isinstance(holder, (cst.Assign, cst.AugAssign)) or not is_text(holder.value):
            return None
        found.append(holder.value)
        if isinstance(holder, cst.AugAssign):
            added_to = _behind(module, holder.target, seen) if isinstance(holder.target, cst.Name) else None
            if added_to is None:
                return None
            found += added_to
    return found


def is_text(node: cst.BaseExpression) -> bool:
    """Whether it is seen to be a text: a string, one that is filled in, or others that are put together with one."""
    if isinstance(node, cst.BinaryOperation):
        filled_in = isinstance(node.operator, (cst.Modulo, cst.Add)) and is_text(node.left)
        return filled_in or (isinstance(node.operator, cst.Add) and is_text(node.right))
    if isinstance(node, cst.Call):
        return isinstance(node.func, cst.Attribute) and node.func.attr.value in _MADE_BY and is_text(node.func.value)
    return isinstance(node, _STRINGS)
