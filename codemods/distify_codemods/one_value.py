"""Whether an expression gives one number, as it is written: of a tensor with an entry for each sample there is none."""

from __future__ import annotations

import libcst as cst

from distify_codemods.libraries import python


def gives_one_number(node: cst.CSTNode) -> bool:
    """`int(p)`, `p.item()`, and what is compared or reckoned of them."""
    if isinstance(node, cst.Comparison):
        return any(map(gives_one_number, (node.left, *(one.comparator for one in node.comparisons))))
    if isinstance(node, cst.BinaryOperation):
        sides = (node.left, node.right)
        return any(map(gives_one_number, sides)) and all(_is_plain(one) or gives_one_number(one) for one in sides)
    if isinstance(node, cst.BooleanOperation):
        return True  # one truth decides which of the two it is
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute):
        return node.func.attr.value == python.ONE_NUMBER_OF_A_TENSOR
    return isinstance(node.func, cst.Name) and node.func.value in python.ONE_NUMBER


def _is_plain(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BaseNumber)
