"""What a training step writes into parameters, gradients and buffers by hand, where a rank's share goes into it.

An optimizer sees averaged gradients alone. `p.grad /= len(x)` or `bias.data.copy_(x.mean(0))` sees the share of a
rank: its counts are multiplied, its means and sums taken over all ranks, where they stand.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Blocked, Figure, FigureForm
from distify_codemods.decisions.differing import reached_alike
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, dealt_by
from distify_codemods.inside import core
from distify_codemods.libraries import torch_nn
from distify_codemods.objects import External, Instance, Parameters
from distify_codemods.scale import Scale
from distify_codemods.updates import writes

CODE = "GRAD02"
_WHY = "this is written into parameters or gradients by hand, and depends on one rank's share of the batch"
_FIX = "compute it over all ranks: `rt.all_reduce_mean(...)` of a mean, `rt.all_reduce_sum(...)` of a sum"
_FORMS = {Scale.MEAN: FigureForm.MEAN, Scale.SUM: FigureForm.SUM}


def decide_updates(facts: Facts) -> tuple[tuple[Figure, ...], list[Blocked]]:
    """The figures that are taken over all ranks, and what cannot be."""
    found: dict[cst.CSTNode, Figure] = {}
    blocked: list[Blocked] = []
    for event in facts.of_kind(Kind.METHOD, Kind.STORE):
        for written in _written(facts, event) if facts.in_training(event) else ():
            figures = _figures(facts, written)
            counts = figures is not None and all(form is FigureForm.COUNT for _, form in figures)
            if figures is not None and (counts or reached_alike(facts, event)):
                for node, form in figures:
                    found[node] = Figure(event.module, node, form)
            elif _is_trained(facts, event):
                blocked.append(Blocked(CODE, event.module, event.node, _WHY, _FIX))
    return tuple(found.values()), blocked


# ---- what is written


def _written(facts: Facts, event: Event) -> Iterator[cst.BaseExpression]:
    """The expressions that go into a parameter, its gradient or a buffer."""
    node = event.node
    if event.kind is Kind.METHOD:
        if writes(event.name) and isinstance(node, cst.Call) and _is_held(facts, event.receiver_node):
            yield from (argument.value for argument in node.args)
    elif event.name in ("grad", "data") and _is_held(facts, event.receiver_node):
        parent = event.module.parents.get(node)
        statement = event.module.parents.get(parent) if isinstance(parent, cst.AssignTarget) else parent
        if isinstance(statement, (cst.Assign, cst.AugAssign)):
            yield statement.value


def _is_held(facts: Facts, node: cst.BaseExpression | None) -> bool:
    """`p.grad`, `layer.weight.data`: a tensor that is reached through parameters or a module."""
    return any(
        isinstance(obj, Parameters) or (inner is not node and _is_module(core(obj)))
        for inner in tree.inwards(node)
        for obj in facts.value(inner).objs
    )


def _is_module(obj: object) -> bool:
    if isinstance(obj, Instance):
        return obj.of is not None and obj.of.derives_from(torch_nn.MODULE)
    return isinstance(obj, External) and obj.name.startswith(torch_nn.OWN)


def _is_trained(facts: Facts, event: Event) -> bool:
    """Whether it is seen to be a parameter or a gradient: `.grad`, `.data`, or what parameters() gave."""
    return (
        event.kind is Kind.STORE
        or _is_of_a_layer(facts, event.receiver_node)
        or any(
            (isinstance(inner, cst.Attribute) and inner.attr.value in ("grad", "data"))
            or any(isinstance(obj, Parameters) for obj in facts.value(inner).objs)
            for inner in tree.inwards(event.receiver_node)
        )
    )


def _is_of_a_layer(facts: Facts, node: cst.BaseExpression | None) -> bool:
    """`model.bias`, of a layer of torch's."""
    if not isinstance(node, cst.Attribute) or node.attr.value not in torch_nn.WEIGHTS:
        return False
    held = (core(obj) for obj in facts.value(node.value).objs)
    return any(isinstance(one, External) and one.name.startswith(torch_nn.OWN) for one in held)


# ---- what of it is a rank's own


def _figures(facts: Facts, node: cst.BaseExpression) -> list[tuple[cst.BaseExpression, FigureForm]] | None:
    """The parts of an expression that differ from rank to rank; nothing where they are no figures of the batch."""
    value = facts.value(node)
    if not dealt_by(value.sources):
        return []
    if value.scale in _FORMS:
        return [(node, _FORMS[value.scale])]
    if value.scale in (Scale.CONST, Scale.REDUCED):
        return []
    parts = _parts(node)
    if parts:
        found = [_figures(facts, part) for part in parts]
        return None if None in found else [one for some in found for one in some or ()]
    return [(node, FigureForm.COUNT)] if value.scale is Scale.COUNT else None


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What elementwise arithmetic works on."""
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right]
    if isinstance(node, cst.UnaryOperation):
        return [node.expression]
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in ("float", "int"):
        return [argument.value for argument in node.args]
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _ELEMENTWISE:
        return [node.func.value, *(argument.value for argument in node.args)]
    return []


_ELEMENTWISE = frozenset("mul div add sub neg detach clone item to float double type_as data".split())
