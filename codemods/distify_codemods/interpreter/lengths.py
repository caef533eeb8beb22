"""How many items a list has: as many as there are samples, some of them, or whatever the batch is.

`len(outputs)`, of what a model computes with each of its heads, is the same for a share of a batch; of losses that are
put down sample by sample it is not. What puts items into a list tells how many, by the turns of the loops around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.events import Here
from distify_codemods.interpreter import forms, pairing
from distify_codemods.objects import Mapping, Passing, Sequence
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, SIZE, Value, join, sources_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_OF_SAMPLES = PER_SAMPLE | {Scale.COUPLED}


def of(value: Value) -> Value | None:
    """The number of items of lists, tuples and dictionaries; None where it is not told."""
    told = [_of_one(obj, value) for obj in value.objs]
    found = [one for one in told if one is not None]
    return join(*found) if found and len(found) == len(told) and not value.open else None


def _of_one(obj: object, value: Value) -> Value | None:
    if isinstance(obj, Mapping):
        by_samples = obj.rest is not None and (obj.rest.scale is not Scale.CONST or obj.keys is not None)
        return Value(scale=Scale.UNKNOWN, sources=value.sources | obj.any().sources) if by_samples else Value()
    if not isinstance(obj, Sequence) or not obj.lengths:
        return None
    scales = {one.scale for _, one in obj.lengths}
    sources = sources_of(one for _, one in obj.lengths)
    if len(obj.lengths) == 1 or scales == {Scale.CONST}:
        return obj.lengths[0][1].with_sources(sources)
    some = scales <= {Scale.COUNT, Scale.SUM}
    return Value(scale=Scale.SUM if some else Scale.UNKNOWN, sources=sources | obj.any().sources)


def changed(machine: Machine, lists: Value, node: cst.CSTNode, many: Value | None = None) -> None:
    """Items are put into lists by `node`: one, or as many as `many` has."""
    for obj in lists.objs:
        if isinstance(obj, Sequence):
            told(machine, obj, node, _times(machine, obj, of_iterable(many) if many is not None else Value()))


def told(machine: Machine, listed: Sequence, node: cst.CSTNode, many: Value | None) -> None:
    """`node` puts so many items into a list; None: that is not seen."""
    many = many or Value(scale=Scale.UNKNOWN)
    known = dict(listed.lengths)
    now = {**known, node: join(known.get(node, many), many)}
    if now != known:
        listed.lengths = tuple(now.items())
        machine.stores += 1


def of_iterable(over: Value) -> Value | None:
    """How many turns it takes to go through something."""
    if over.objs and all(isinstance(obj, Passing) for obj in over.objs):
        inner = (one for obj in over.objs if isinstance(obj, Passing) for one in (obj.over, *obj.zipped) if one)
        kinds = [of_iterable(one) for one in inner]
        seen = [one for one in kinds if one is not None]
        return next((one for one in seen if one.scale is not Scale.CONST), seen[0] if seen else None)
    if (known := of(over)) is not None or over.one_row:
        return known or Value()
    if pairing.gives_samples(over) or pairing.counts_samples(over) or (not over.objs and over.scale in PER_SAMPLE):
        return Value(SIZE, Scale.COUNT, forms.counting(over))
    return Value() if over.scale is Scale.CONST else None


def _times(machine: Machine, listed: Sequence, many: Value | None) -> Value | None:
    """In turns of loops that a list was there before."""
    loops = [here for here in around(machine) if not is_made_in(listed, here)]
    turns = [turns_of(machine, here.node) for here in loops]
    if many is None or None in turns:
        return None
    decide = machine.samples_decide
    counted = [one for one in (*turns, many) if one is not None and one.scale is not Scale.CONST]
    if not counted:
        return many if decide is None else None
    again = len(counted) > 1 or len(loops) > len(counted)  # other turns are around these: `pool`, of all batches so far
    some = decide is not None or again or any(_leaves_out(machine, here.node) for here in loops)
    return Value(scale=Scale.SUM, sources=sources_of(counted)) if some else counted[0]


def around(machine: Machine) -> tuple[Here, ...]:
    """The loops, and the comprehensions, that what runs is in."""
    return (*machine.comprehending, *machine.here.loops)


def turns_of(machine: Machine, loop: cst.CSTNode) -> Value | None:
    """How many turns a loop has; None: that is not seen."""
    if isinstance(loop, (cst.For, cst.CompFor)):
        return of_iterable(machine.values.get(loop.iter, NOTHING))
    test = machine.values.get(loop.test, NOTHING) if isinstance(loop, cst.While) else NOTHING
    return None if any(one.scale in (Scale.COUNT, *_OF_SAMPLES) for one in _parts(machine, loop, test)) else Value()


def _parts(machine: Machine, loop: cst.CSTNode, test: Value) -> list[Value]:
    """What a test says, and what it compares."""
    inside = tree.walk(loop.test) if isinstance(loop, cst.While) else ()
    return [test, *(machine.values.get(one, NOTHING) for one in inside if isinstance(one, cst.BaseExpression))]


def _leaves_out(machine: Machine, loop: cst.CSTNode) -> bool:
    """Whether what a sample says ends a turn early."""
    return any(machine.values.get(test, NOTHING).scale in _OF_SAMPLES for test in forms.leaving(loop))


def body_of(loop: Here) -> cst.CSTNode:
    """What is done in each turn."""
    body = loop.node
    while isinstance(body, cst.CompFor):  # what a turn makes stands before it
        body = loop.frame.module.parents[body]
    return body.body if isinstance(body, cst.For) else body


def in_turns(machine: Machine) -> tuple[bool, bool]:
    """Whether something happens in turns of loops, and in turns over samples."""
    loops = around(machine)
    over = (turns_of(machine, here.node) for here in loops)
    return bool(loops), any(one is None or one.scale is not Scale.CONST for one in over)


def is_made_in(obj: Obj, loop: Here) -> bool:
    """Whether each turn makes one of its own."""
    parents = loop.frame.module.parents
    steps = [one for one in (*obj.context, obj.site) if isinstance(one, cst.CSTNode) and one in parents]
    body = body_of(loop)
    return any(body in loop.frame.module.enclosing(one) for one in steps)
