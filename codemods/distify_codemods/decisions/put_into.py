"""What is put into dictionaries and lists of the script's own once they are there: `figures["loss"] = loss.item()`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.answers import answered_once
from distify_codemods.facts import Facts
from distify_codemods.libraries import python
from distify_codemods.objects import Mapping, Sequence


@answered_once
def put_into(facts: Facts) -> dict[Obj, list[cst.BaseExpression]]:
    """By what takes it, in the order in which it is written down."""
    found: dict[Obj, list[cst.BaseExpression]] = {}
    for module in facts.run.frames:
        for node in module.parents:
            for holder, given in _puts(node):
                for obj in facts.value(holder).objs:
                    if isinstance(obj, (Mapping, Sequence)):
                        found.setdefault(obj, []).append(given)
    return found


def _puts(node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """A holder, and what goes into it; not what goes on from what is there: `counts[key] = counts.get(key, 0) + 1`."""
    if isinstance(node, cst.Assign):
        held = [one.value for one in tree.targets(node) if isinstance(one, cst.Subscript)]
        read = (
            {tree.code_of(one) for one in tree.walk(node.value) if isinstance(one, cst.BaseExpression)} if held else ()
        )
        yield from ((one, node.value) for one in held if tree.code_of(one) not in read)
    elif isinstance(node, cst.AugAssign) and not isinstance(node.target, cst.Subscript):
        yield node.target, node.value
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        keeps = node.func.attr.value in python.KEEPING_METHODS
        yield from ((node.func.value, one.value) for one in (node.args if keeps else ()))
