"""Where a rank's share of a batch meets the whole batch: shapes that do not fit, or samples beside the wrong ones."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.libraries.effects import PURE
from distify_codemods.objects import Sequence
from distify_codemods.origins import Whole
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import Value

_SHARED = PER_SAMPLE | {Scale.COUNT, Scale.INVERSE, Scale.COUPLED, Scale.UNKNOWN}


def first(facts: Facts) -> str:
    """Where that happens; empty: nowhere."""
    calls = {
        event.node: event
        for event in facts.of_kind(Kind.CALL, Kind.METHOD, Kind.FORWARD)
        if event.kind is not Kind.CALL or event.name.startswith(PURE)
    }
    for module in facts.run.frames:
        for node, value in facts.run.values.items():
            if node not in module.parents:
                continue
            operands = list(_operands(facts, node, calls))
            meet = any(map(is_whole, operands)) and any(is_share(facts, one) for one in operands)
            both = is_whole(value) and is_share(facts, value)
            if both or (meet and not _adds_up(node, operands, value)):
                return f"at {module.place(node)}"
    return ""


def is_whole(value: Value) -> bool:
    return any(isinstance(source, Whole) for source in value.sources)


def is_share(facts: Facts, value: Value) -> bool:
    """Whether it is of one rank's samples, and no number whose average over the ranks is that of one process."""
    return value.scale in _SHARED and bool(facts.shares_of_training(value))


def _adds_up(node: cst.CSTNode, operands: list[Value], value: Value) -> bool:
    """Terms of a loss, each a number: whether their sum is right is asked of the loss."""
    return (
        isinstance(node, cst.BinaryOperation)
        and value.scale not in PER_SAMPLE
        and not any(one.scale in PER_SAMPLE or one.scale is Scale.COUNT for one in operands)
    )


def _operands(facts: Facts, node: cst.CSTNode, calls: dict[cst.CSTNode, Event]) -> Iterator[Value]:
    if isinstance(node, cst.BinaryOperation):
        yield from (facts.value(node.left), facts.value(node.right))
    elif isinstance(node, cst.Comparison):
        yield from (facts.value(node.left), *(facts.value(one.comparator) for one in node.comparisons))
    elif isinstance(node, cst.Subscript):
        yield facts.value(node.value)
        for element in node.slice:
            parts = element.slice
            inner = (parts.lower, parts.upper) if isinstance(parts, cst.Slice) else (getattr(parts, "value", None),)
            yield from (facts.value(one) for one in inner if one is not None)
    elif isinstance(node, cst.Call) and node in calls:
        event = calls[node]
        if isinstance(node.func, cst.Attribute) and event.kind is Kind.METHOD:
            yield facts.value(node.func.value)
        for argument in node.args:
            yield from _parts(facts.value(argument.value))


def _parts(value: Value) -> Iterator[Value]:
    yield value
    for obj in value.objs:
        if isinstance(obj, Sequence):
            yield from obj.items or ()
