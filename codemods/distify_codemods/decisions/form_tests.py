"""Tests of what a rank's share has in common with its batch: how tensors lie and of which kind they are."""

from __future__ import annotations

import libcst as cst

from distify_codemods.allocation import Ref
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, dealt_by
from distify_codemods.libraries import python
from distify_codemods.scale import Scale

_EQUAL = (cst.Equal, cst.NotEqual)
#: Attributes of a tensor, and methods, that say the same of its parts.
_OF_ALL_PARTS = frozenset("ndim dim dtype device layout is_cuda training".split())


def is_of_form(facts: Facts, event: Event) -> bool:
    """Whether something is decided there that goes for a share of a batch as for all of it."""
    test = getattr(event.node, "test", None)
    return event.kind is Kind.TEST and isinstance(test, cst.BaseExpression) and asks_form(facts, test)


def asks_form(facts: Facts, test: cst.BaseExpression) -> bool:
    if isinstance(test, cst.BooleanOperation):
        return asks_form(facts, test.left) and asks_form(facts, test.right)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return asks_form(facts, test.expression)
    if isinstance(test, cst.Comparison):
        return all(isinstance(one.operator, (cst.Is, cst.IsNot)) for one in test.comparisons) or (
            _compares_shapes(facts, test)
            or all(_is_common(facts, one) for one in (test.left, *(each.comparator for each in test.comparisons)))
        )
    return _is_common(facts, test)


def _compares_shapes(facts: Facts, test: cst.Comparison) -> bool:
    """`a.shape[2:] != b.shape[2:]`: if it is the number of samples as well, both have as many."""
    if len(test.comparisons) != 1 or not isinstance(test.comparisons[0].operator, _EQUAL):
        return False
    one, other = _shape(test.left), _shape(test.comparisons[0].comparator)
    if one is None or other is None or (one[1] is not other[1] and not _alike(one[1], other[1])):
        return False
    return all(facts.value(tensor).scale is Scale.SAMPLES for tensor, _ in (one, other))


def _alike(one: cst.CSTNode | None, other: cst.CSTNode | None) -> bool:
    return one is not None and other is not None and one.deep_equals(other)


def _shape(node: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.CSTNode | None] | None:
    """The tensor of whose shape this is a part, and what says which: None for all of it."""
    if isinstance(node, cst.Attribute) and node.attr.value == "shape":
        return node.value, None
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "size":
        return node.func.value, node.args[0].value if node.args else None
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        whole = _shape(node.value)
        return (whole[0], node.slice[0].slice) if whole is not None and whole[1] is None else None
    return None


def _is_common(facts: Facts, node: cst.BaseExpression) -> bool:
    """Whether something is the same for a share: it is nothing of a batch, or no number of samples and no figure."""
    if not dealt_by(facts.value(node).sources):
        return True
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
        return node.func.attr.value in _OF_ALL_PARTS
    if isinstance(node, cst.Attribute):
        inner = isinstance(node.value, cst.Attribute) and _is_common(facts, node.value)  # `x.device.type`
        return inner or node.attr.value in _OF_ALL_PARTS
    called = facts.value(node.func).objs if isinstance(node, cst.Call) else ()
    if any(isinstance(obj, Ref) and obj.name in python.ASKS_KIND for obj in called):
        return True
    part = _shape(node)
    if part is None or part[1] is None or facts.value(part[0]).scale is not Scale.SAMPLES:
        return False
    place = part[1].value if isinstance(part[1], cst.Index) else part[1]
    return isinstance(place, cst.Integer) and place.evaluated_value > 0
