"""Samples of earlier steps that training looks at again: each rank would have a pool of its own."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Link
from distify_codemods.facts import Facts, dealt_by
from distify_codemods.interpreter.targets import any_item
from distify_codemods.naming import brief
from distify_codemods.values import NOTHING, Sequence

_READING = frozenset(
    "random.choice random.choices random.sample torch.cat torch.stack torch.concat numpy.concatenate".split()
)


def kept_samples(facts: Facts) -> Iterator[Link]:
    """Where a training step reads a list that was there before, and holds something of earlier batches."""
    loops = [loop.event for loop in facts.training_loops]
    bodies: dict[cst.CSTNode, None] = dict.fromkeys(loop.node.body for loop in facts.training_loops)
    for event in facts.run.events:
        called = any(event.inside(one) and len(event.here.frame.context) > len(one.here.frame.context) for one in loops)
        if called and isinstance(event.here.frame.node, cst.FunctionDef):
            bodies.setdefault(event.here.frame.node.body)
    inside = {node: None for body in bodies for node in tree.walk(body)}
    for node in inside:
        read = _read(node)
        value = facts.value(read) if read is not None else NOTHING
        for obj in value.objs:
            if (
                not isinstance(obj, Sequence)
                or isinstance(facts.module_of(node).parents[node], cst.AssignTarget)
                or obj.site in inside
                or obj.site is None
            ):
                continue
            held = any_item(value.of([obj]))
            if (
                held is not None
                and held.scale is not held.scale.CONST
                and dealt_by(held.sources) & facts.training_loaders
            ):
                yield Link(
                    facts.module_of(node), node,
                    f"`{brief(node)}` looks at what was kept of earlier batches, of which each rank has its own share",
                )  # fmt: skip


def _read(node: cst.CSTNode) -> cst.BaseExpression | None:
    """What is read of: `pool[number]`, `pool.pop(0)`, `torch.cat(pool)`."""
    if isinstance(node, cst.Subscript):
        return node.value
    if (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in ("pop", "popleft")
    ):
        return node.func.value
    if isinstance(node, cst.Call) and node.args and tree.dotted(node.func) in _READING:
        return node.args[0].value
    return None
