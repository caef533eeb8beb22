"""Draws in training that are no samples', of one number or of several: for the whole batch, and so rank 0's for all."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.differing import reached_alike, why_different
from distify_codemods.decisions.own_streams import has_a_stream_of_its_own
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.interpreter import sizes
from distify_codemods.libraries import drawing, forms, python
from distify_codemods.libraries import sizes as table
from distify_codemods.objects import Sequence
from distify_codemods.ordered import EMPTY
from distify_codemods.program import Module
from distify_codemods.scale import Scale
from distify_codemods.values import Value

_ONE = {**drawing.NUMBERS, **drawing.SINGLE, **drawing.TENSORS}


def compared(facts: Facts) -> Iterator[tuple[Module, cst.BaseExpression]]:
    """`random.random() < share` in training: one decision for the batch, not one for each part of it."""
    for event in facts.calls(*_ONE):
        parent = event.module.parents.get(event.node)
        if not isinstance(parent, cst.Comparison) or not why_different(facts, facts.value(parent).sources):
            continue
        if is_one_number(event) and facts.in_training(event) and reached_alike(facts, event):
            yield event.module, parent


def in_training(facts: Facts) -> Iterator[tuple[Module, cst.BaseExpression]]:
    """`random.randint(low, high)` in training: one length for the batch, not one for each part of it."""
    for event in facts.calls(*_ONE, *table.DRAWN) if not facts.run.trial.draws_alike else ():
        node, module, one = event.node, event.module, is_one_number(event)
        if node in facts.run.trial.averaged or (one and isinstance(module.parents.get(node), cst.Comparison)):
            continue  # known already, or told as what it decides
        if event.name not in drawing.NUMBERS and (facts.in_a_model(event) or (one and _is_compared(module, node))):
            continue
        whole = (one or _is_of_fixed_sizes(facts, event)) and not _in_parts(module, node)
        if whole and facts.in_training(event) and reached_alike(facts, event):
            assert isinstance(node, cst.BaseExpression)
            yield module, node


def _is_of_fixed_sizes(facts: Facts, event: Event) -> bool:
    """`torch.randn(5, 3)`: as many on each rank as one process draws, where no batch says how many."""
    given = sizes.given(event.name, event.arguments) if not has_a_stream_of_its_own(event) else None
    loaders = [one.arguments for one in facts.loaders if one.obj in facts.training_loaders]
    batches = [value for one in loaders for value in [one.get("batch_size", 1)] if value is not None]
    told = EMPTY.union(*(value.objs | value.sources for value in batches))
    return bool(given) and all(
        value.scale is Scale.CONST and not told & (value.objs | value.sources) for value in given or ()
    )


def _is_compared(module: Module, node: cst.CSTNode) -> bool:
    """`chance = random.random()`, of which nothing is made but tests: rank 0 tells how these come out."""
    given = module.parents.get(node)
    target = given.targets[0].target if isinstance(given, cst.Assign) and len(given.targets) == 1 else None
    reads = list(module.flow(target).uses(target)) if isinstance(target, cst.Name) else []
    return bool(reads) and all(isinstance(module.parents.get(one), cst.Comparison) for one in reads)


def is_one_number(event: Event) -> bool:
    """Whether a call draws a single number: one for the batch."""
    given, first = event.arguments, _ONE.get(event.name)
    if event.kind is Kind.METHOD and event.name in drawing.METHODS:
        return _is_of_one_entry(event) and not has_a_stream_of_its_own(event)
    if first is None or given.star is not None or given.double_star is not None or has_a_stream_of_its_own(event):
        return False
    size = given.keywords.get("size")
    sizes = given.positional[first:] if size is None else [size]
    return all(map(_is_one, sizes)) and bool(sizes or event.name not in drawing.TENSORS)


def _is_of_one_entry(event: Event) -> bool:
    """`torch.empty(1).uniform_(0.5, 1)`, `scale.uniform_(0.5, 1).item()`"""
    parent = event.module.parents.get(event.node)
    if isinstance(parent, cst.Attribute) and parent.attr.value == python.ONE_NUMBER_OF_A_TENSOR:
        return True
    made = event.receiver_node
    name = (tree.dotted(made.func) or "").rsplit(".", 1)[-1] if isinstance(made, cst.Call) else ""
    sizes = [arg.value for arg in made.args if arg.keyword is None] if isinstance(made, cst.Call) else []
    return name.removeprefix("new_") in forms.BY_SIZES and bool(sizes) and all(map(_is_written_as_one, sizes))


def _is_written_as_one(size: cst.BaseExpression) -> bool:
    if isinstance(size, (cst.Tuple, cst.List)):
        return all(_is_written_as_one(one.value) for one in size.elements)
    return tree.integer(size) == 1


def _is_one(size: Value) -> bool:
    """`1`, `(1,)`, `()`"""
    only = size.single()
    items = only.items if isinstance(only, Sequence) and not size.open else None
    return size.constant() == 1 if items is None else all(map(_is_one, items))


def _in_parts(module: Module, node: cst.CSTNode) -> bool:
    """Whether it is evaluated for each of several items, within one statement."""
    for around in module.enclosing(node):
        if isinstance(around, (cst.BaseComp, cst.Lambda)):
            return True
        if isinstance(around, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            break
    return False
