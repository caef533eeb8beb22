"""What is one sample of a batch (`x[0]`), or made of such alone: it has the same form in a share as in the batch."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions import aliases
from distify_codemods.decisions.marks import with_evidence
from distify_codemods.facts import Facts
from distify_codemods.objects import Function
from distify_codemods.origins import Row, Single
from distify_codemods.program import Module
from distify_codemods.scale import PER_SAMPLE

_DEEPEST = 16


def is_one_sample(facts: Facts, module: Module, node: cst.BaseExpression) -> bool:
    """Whether it is seen to be, on every way to here."""
    return _is_one(with_evidence(facts), module, node, _DEEPEST)


def _is_one(facts: Facts, module: Module, node: cst.BaseExpression, depth: int) -> bool:
    if depth == 0:
        return False
    if isinstance(node, cst.Name):
        found = module.flow(node).reaching(node)
        return bool(found) and all(_is_bound_to_one(facts, module, node, bound, depth - 1) for bound in found)
    if isinstance(node, cst.Subscript) and _takes_one(facts, node):
        return True
    parts = [one for one in _parts(facts, node) if facts.value(one).scale in PER_SAMPLE]
    return bool(parts) and all(_is_one(facts, module, one, depth - 1) for one in parts)


def _takes_one(facts: Facts, node: cst.Subscript) -> bool:
    """`x[0]`, `x[i, :, 0]`: it is one sample from here on."""
    before = facts.value(node.value).sources
    return any(isinstance(one, (Row, Single)) and one not in before for one in facts.value(node).sources)


def _parts(facts: Facts, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What an expression is made of: of a call, what a function of a library is given."""
    if isinstance(node, (cst.Attribute, cst.Subscript)):
        yield node.value
    elif isinstance(node, cst.UnaryOperation):
        yield node.expression
    elif isinstance(node, cst.BinaryOperation):
        yield from (node.left, node.right)
    elif isinstance(node, cst.Call) and not any(isinstance(obj, Function) for obj in facts.value(node.func).objs):
        if isinstance(node.func, cst.Attribute):
            yield node.func.value
        yield from (one.value for one in node.args)


def _is_bound_to_one(facts: Facts, module: Module, read: cst.Name, bound: cst.CSTNode, depth: int) -> bool:
    """`picture = x[0]`, `for picture in x`, `for picture, label in zip(x, y)`, `def show(picture)`"""
    if isinstance(bound, cst.Param):
        given = list(aliases.given_to(facts, module, bound))
        return bool(given) and all(_is_one(facts, where, one, depth) for where, one in given)
    for holder in module.enclosing(bound):
        if isinstance(holder, cst.For) and any(bound is one for one in tree.walk(holder.target)):
            return any(isinstance(one, Row) and _is_of_turn(one, holder) for one in facts.value(read).sources)
        if isinstance(holder, cst.Assign):
            plain = all(one.target is bound for one in holder.targets)
            return plain and _is_one(facts, module, holder.value, depth)
    return False


def _is_of_turn(row: Row, loop: cst.For) -> bool:
    return row.site is loop or (row.by is not None and row.by.loop is loop)
