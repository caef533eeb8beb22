"""Iteration: where a pass over a loader begins, and where a batch is taken from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import libcst as cst

from distify_codemods.allocation import Const, Obj
from distify_codemods.events import Kind
from distify_codemods.inside import to_library
from distify_codemods.interpreter import (
    collated,
    cuts,
    holding,
    lengths,
    modules,
    pairing,
    rows,
    sampling,
    single_rows,
    storages,
    text,
)
from distify_codemods.libraries import python, torch_data
from distify_codemods.objects import Arguments, External, Instance, Mapping, Passing, Sequence
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import PIECE, Counter
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

ALL = "all"  # the `part` of what takes a whole pass at once: `list(loader)`, a comprehension
Result = TypeVar("Result")


def begin(machine: Machine, over: Value, node: cst.CSTNode, expression: cst.BaseExpression, part: str = "") -> Value:
    """`iter(over)`, as loops call it too: passes over loaders begin here. Returns the iterator.

    `part`: which of several things that are iterated together.
    """
    loaders = Ordered(obj for obj in map(to_library, over.objs) if _is_loader(obj))
    if loaders:
        machine.event(Kind.PASS, node, name=part, value=Value(loaders), receiver_node=expression)
    began = [_begun(machine, obj, node, expression, part) for obj in over.objs]
    if all(one is obj for one, obj in zip(began, over.objs, strict=True)):
        return over
    return join(over.of(EMPTY), *(_value(one, over) for one in began))


def _value(one: Obj | Value, over: Value) -> Value:
    return one if isinstance(one, Value) else over.of(one.alone)


def _is_loader(obj: Obj) -> bool:
    return isinstance(obj, External) and obj.name in torch_data.LOADERS


def _begun(machine: Machine, obj: Obj, node: cst.CSTNode, expression: cst.BaseExpression, part: str) -> Obj | Value:
    if isinstance(obj, Passing) and not obj.begun and obj.over is not None:
        inner = begin(machine, obj.over, node, expression, part)
        if inner is obj.over:
            return obj
        copy = machine.made(Passing, node, obj, over=inner, numbered=obj.numbered, begun=True)
        copy.over = join(copy.over or NOTHING, inner)
        return copy
    if isinstance(obj, Instance):
        method = machine.attribute(obj, "__iter__")
        if method.objs:
            result = machine.call(method, Arguments(), node)
            return obj if obj in result.objs else result
    return obj


def element_of(machine: Machine, over: Value, place: cst.CSTNode, part: str = "", whole: Value | None = None) -> Value:
    """What the next item of an iterator is: a turn of the loop `place` gets it, or a call of `next`.

    `whole`: what the place goes through, of which this is a part.
    """
    whole = whole or over
    found = []
    taken: list[External] = []
    for obj in over.objs:
        if isinstance(obj, Passing):
            found.append(_passed(machine, obj, place, part, whole))
        elif isinstance(obj, External) and obj.name in torch_data.LOADERS:
            taken.append(obj)
            found.append(_batch(machine, obj, place))
        elif machine.cutting is not None and isinstance(obj, External) and obj.name == torch_data.BATCH_SAMPLER:
            found.append(cuts.sampled(machine, obj, place))
        elif isinstance(obj, External) and obj.name in python.NUMBERS:
            found.append(_count(machine, place, over))
        elif isinstance(obj, Mapping):
            found.append(Value(Ordered(machine.made(Const, place, key, value=key) for key in obj.items)))
        elif isinstance(obj, Instance):
            found.append(_next_of(machine, obj, place, part))
            if obj.base is not None and found[-1] is NOTHING:
                taken.append(obj.base)
                found[-1] = _batch(machine, obj.base, place).in_one_row(False)  # its class may put samples together
        else:
            if isinstance(obj, Sequence):
                taken += obj.deals
            item = holding.any_item(over.of(obj.alone))
            if PIECE in item.sources - over.sources and isinstance(place, cst.For) and _has_all(obj):
                item = item.with_sources(item.sources - {PIECE})
            each = isinstance(obj, Sequence) and obj.of_each and isinstance(place, cst.For)
            found.append(replace(item, scale=Scale.COUPLED) if each and item.scale in PER_SAMPLE else item)
    if taken:
        machine.frame.drawn |= taken
        machine.event(Kind.DRAW, place, name=part, receiver=whole, value=Value(Ordered(taken)))
    if found:
        return join(*found)
    item = holding.entry_of(over)
    if machine.evidence and not isinstance(place, cst.For) and pairing.gives_samples(over):
        item = item.adding([PIECE])
    if isinstance(place, cst.For) and pairing.gives_samples(over):
        item = Value(scale=Scale.COUPLED, sources=over.sources)  # what is summed over turns is summed over samples
    return single_rows.gone_through(machine, over, item, place)


#: A batch as it is taken.
WHOLE = Value(scale=Scale.SAMPLES)


def _has_all(obj: Obj) -> bool:
    """`list(x)`"""
    many = lengths.of(Value(obj.alone))
    return many is not None and many.scale is Scale.COUNT


def _batch(machine: Machine, loader: External, place: cst.CSTNode) -> Value:
    if place in machine.whole:
        return WHOLE
    if machine.asks_for_samples:
        sampling.ask(machine, loader, place)
    if loader.name in torch_data.ITERATORS:
        return text.batch_of(machine, loader)
    if machine.evidence:
        return collated.batch_of(machine, loader, storages.new(machine, place, WHOLE).alone)
    return Value(scale=Scale.SAMPLES, sources=loader.alone, one_row=rows.dealt(loader))


def _count(machine: Machine, place: cst.CSTNode, over: Value = NOTHING) -> Value:
    loop = place if isinstance(place, cst.For) else None
    first = _first_number(machine, over) if loop is None else None
    told = [] if first is None else [first]
    counter = machine.made(Counter, place, *told, loop=loop, first=first)
    moving = [counter] if machine.cutting is not None or machine.evidence else []
    return pairing.numbered(machine, over, Value(counter.alone, over.scale, over.sources | moving), place)


def _first_number(machine: Machine, over: Value) -> int | None:
    """`1` of `range(1, x.dim())`, which goes upwards from there."""
    only = over.single()
    call = only.site if isinstance(only, External) and only.name == python.RANGE else None
    if not isinstance(call, cst.Call) or len(call.args) != 2 or any(one.star for one in call.args):
        return None
    begins = machine.values.get(call.args[0].value, NOTHING).constant()
    return begins if isinstance(begins, int) and not isinstance(begins, bool) else None


def _passed(machine: Machine, obj: Passing, place: cst.CSTNode, part: str, whole: Value) -> Value:
    if obj.zipped:
        items = tuple(
            element_of(machine, value, place, f"{part}{number}", whole) for number, value in enumerate(obj.zipped)
        )
        items = pairing.zipped(machine, obj.zipped, items, place)
        row = machine.made(Sequence, place, "zip", obj, items=items)
        row.items = tuple(join(one, other) for one, other in zip(row.items or items, items, strict=True))
        return Value(row.alone)
    inner = element_of(machine, obj.over or NOTHING, place, part, whole)
    if not obj.numbered:
        return inner
    pair = machine.made(Sequence, place, "enumerate", obj)
    number = pairing.numbered(machine, obj.over or NOTHING, _count(machine, place), place)
    pair.items = (number, join(pair.items[1], inner) if pair.items else inner)
    return Value(pair.alone)


def _next_of(machine: Machine, obj: Instance, place: cst.CSTNode, part: str) -> Value:
    """What an iterator of a local class hands out; one that is only indexed hands out its items."""
    table, row = holding.held(machine, obj), holding.items_of(obj)
    if table is not None:
        return element_of(machine, Value(table.alone), place, part)
    if row is not None:
        return join(*row)
    for name in ("__next__", "__getitem__"):
        method = machine.attribute(obj, name)
        if method.objs:
            return machine.call(method, Arguments(), place)
    return modules.held_by(obj) or NOTHING


def while_drawing(machine: Machine, action: Callable[[], Result]) -> tuple[Result, Ordered[External]]:
    """Does something, and says from which loaders batches were taken meanwhile."""
    frame, before = machine.frame, machine.frame.drawn
    frame.drawn = EMPTY
    result = action()
    taken = frame.drawn
    frame.drawn = before | taken
    return result, taken
