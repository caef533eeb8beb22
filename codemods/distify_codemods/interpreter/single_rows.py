"""Batches that a loop goes through by number: `out[i] = f(x[i])` keeps each sample apart, `out[i] = x[j]` does not.

Which samples there are at other numbers differs between a batch and a rank's share of it. So a sample that a number has
found carries a mark (`Row`) of the loop whose turn it is; what is written at the place of that turn has to be made of
samples of that turn alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.interpreter import holding, lengths
from distify_codemods.objects import Instance, Mapping, Sequence
from distify_codemods.origins import PART, Counter, Row, Single
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def taken(machine: Machine, node: cst.Subscript, receiver: Value, key: Value, item: Value) -> Value:
    """`x[i]`, of a batch: what is not seen to have an entry for each sample is one of them, or a part of one.

    At a literal place too, where `x` is itself a part of what the loader gives: else `batch[0]` is one.
    """
    if receiver.scale is Scale.COUPLED:  # `x.flip(0)[i]` is of some other sample
        return item.adding([machine.mark(Row, node)])
    index = node.slice[0].slice
    if receiver.scale is not Scale.SAMPLES:
        return item
    literal = PART in receiver.sources and type(key.constant()) is int
    if not isinstance(index, cst.Index) or (item.scale is not Scale.UNKNOWN and not literal):
        return item
    return item.adding([_row(machine, node, _turn_of(index.value, key))])


def of_list(machine: Machine, node: cst.Subscript, listed: Sequence, item: Value) -> Value:
    """`rows[i]`, of a list that may have an item for each sample, and has not as many whatever the batch is."""
    index = node.slice[0].slice
    samples = listed.is_of_samples or (
        PART in item.sources and item.scale in PER_SAMPLE and not _has_its_own_length(listed)
    )
    if not samples or not isinstance(index, cst.Index):
        return item
    key = machine.values.get(index.value, NOTHING)
    if listed.per_sample and machine.evidence and type(key.constant()) is int:
        return item.adding([machine.mark(Single, node)])
    return item.adding([_row(machine, node, _turn_of(index.value, key))])


def _has_its_own_length(listed: Sequence) -> bool:
    """`skips.append(x)` in the turns over layers"""
    many = lengths.of(Value(listed.alone))
    return many is not None and many.scale is Scale.CONST


def _row(machine: Machine, node: cst.CSTNode, counter: Counter | None) -> Row:
    return machine.made(Row, None, counter, by=counter) if counter is not None else machine.mark(Row, node)


def gone_through(machine: Machine, over: Value, item: Value, loop: cst.CSTNode) -> Value:
    """`for row in x`: in each turn a sample of its own, unless those of `x` are related to each other before."""
    if not isinstance(loop, cst.For) or over.scale not in (*PER_SAMPLE, Scale.COUPLED):
        return item
    counter = machine.made(Counter, loop, loop=loop) if over.scale is not Scale.COUPLED else None
    return item.adding([_row(machine, loop, counter)])


def _turn_of(index: cst.BaseExpression, key: Value) -> Counter | None:
    """The loop of which a name holds the number of the turn."""
    only = key.single() if isinstance(index, cst.Name) else None
    return only if isinstance(only, Counter) and only.loop is not None else None


def written(machine: Machine, target: cst.Subscript, receiver: Value, key: Value, value: Value) -> None:
    """`out[i] = value`"""
    index = target.slice[0].slice
    if receiver.scale is not Scale.SAMPLES or not isinstance(index, cst.Index):
        return
    counter = _turn_of(index.value, key)
    if any(isinstance(one, Row) and (counter is None or one.by is not counter) for one in value.sources):
        holding.relate(machine, target.value, receiver, value)


def changed(machine: Machine, place: cst.BaseExpression, row: Value, given: Value) -> None:
    """`out[i].copy_(given)`: what is at a place of a tensor is changed in place."""
    own = {one for one in row.sources if isinstance(one, Row)}
    others = [one for one in given.sources if isinstance(one, Row) and (one.by is None or one not in own)]
    if isinstance(place, cst.Subscript) and own and others:
        holding.relate(machine, place.value, machine.values.get(place.value, NOTHING), given)


def turn_begins(machine: Machine, loop: cst.CSTNode) -> None:
    """What names, and lists and dictionaries of before it, hold of its turns' samples is of an earlier turn now."""

    def is_of_a_turn(value: Value | None) -> bool:
        sources = value.sources if value is not None else ()
        return any(isinstance(one, Row) and one.by is not None and one.by.loop is loop for one in sources)

    old = [machine.mark(Row, loop)]
    for name, value in list(machine.frame.env.items()):
        if is_of_a_turn(value):
            machine.frame.env[name] = value.adding(old)
        for obj in value.objs:
            if isinstance(obj, Sequence) and is_of_a_turn(obj.element) and _is_older(machine, obj, loop):
                holding.append(machine, obj, obj.any().adding(old))
            elif isinstance(obj, (Mapping, Instance)) and _is_older(machine, obj, loop):
                table: Any = obj.items if isinstance(obj, Mapping) else obj.attributes
                for key, held in list(table.items()):
                    if is_of_a_turn(held):
                        machine.keep(table, key, held.adding(old), obj)
                if isinstance(obj, Mapping) and is_of_a_turn(obj.rest):
                    holding.set_item(machine, obj, None, obj.any().adding(old))


def _is_older(machine: Machine, obj: Obj, loop: cst.CSTNode) -> bool:
    """Whether it was made in this function, and outside of the loop."""
    module = machine.frame.module
    return (
        obj.context == machine.frame.context and obj.site in module.parents and loop not in module.enclosing(obj.site)
    )
