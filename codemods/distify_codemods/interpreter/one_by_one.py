"""What is counted, or taken out, one by one in turns over the samples of a batch: `n += 1`, `rows.pop()`, `next(it)`.

What the next sample gets hangs on how many came before it, of which a rank has its own alone.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Here
from distify_codemods.interpreter import lengths
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def counted(machine: Machine, target: cst.BaseExpression) -> Value | None:
    """What is counted in turns over samples, if what runs is in some, and has had a value before them: a sum over them.

    What a turn reads of it is another one for each sample, by their places.
    """
    if isinstance(target, cst.Name) and not machine.frame.is_of_another(target.value):
        loop = _loop_of_name(machine, target.value)
    else:
        holder = target.value if isinstance(target, (cst.Attribute, cst.Subscript)) else None
        loop = _over_samples(machine, machine.values.get(holder, NOTHING) if holder is not None else NOTHING)
    if loop is None:
        return None
    scale = Scale.COUPLED if _is_read_in_turns(machine, target, loop) else Scale.SUM
    return Value(scale=scale, sources=(lengths.turns_of(machine, loop.node) or NOTHING).sources)


def _loop_of_name(machine: Machine, name: str) -> Here | None:
    for here in machine.here.loops:
        if here.frame is not machine.frame:
            return None
        loop = here.node
        if not isinstance(loop, cst.For) or not _goes_through_samples(machine, here):
            continue
        if here.frame.module.flow(loop).reaching_loop(loop, name):
            return here
    return None


def _over_samples(machine: Machine, held: Value) -> Here | None:
    """The loop over samples that what runs is in, and that something was there before."""
    for here in lengths.around(machine):
        if _goes_through_samples(machine, here) and not any(lengths.is_made_in(obj, here) for obj in held.objs):
            return here
    return None


def _goes_through_samples(machine: Machine, loop: Here) -> bool:
    turns = lengths.turns_of(machine, loop.node) if isinstance(loop.node, (cst.For, cst.CompFor)) else None
    return turns is not None and turns.scale is not Scale.CONST


def _is_read_in_turns(machine: Machine, target: cst.BaseExpression, loop: Here) -> bool:
    """Whether anything in the loop, or in the functions that it calls to count, names it once more."""
    called = itertools.takewhile(lambda one: one is not loop and one is not loop.parent, machine.here.up())
    places = dict.fromkeys(one.frame.node for one in called if one.frame is not loop.frame)
    name = _own_name(target)
    return any(_reads(place, name) for place in (lengths.body_of(loop), *places))


def _own_name(target: cst.CSTNode) -> str:
    """`n` of `n`, `self.n` and `n["all"]`."""
    while isinstance(target, cst.Subscript):
        target = target.value
    named = target.attr if isinstance(target, cst.Attribute) else target
    return named.value if isinstance(named, cst.Name) else ""


def _reads(place: cst.CSTNode, name: str) -> bool:
    """Whether it is named anywhere but in updates of itself."""
    if isinstance(place, cst.AugAssign):
        return (_own_name(place.target) != name and _reads(place.target, name)) or _reads(place.value, name)
    if isinstance(place, cst.Assign) and [_own_name(one.target) for one in place.targets] == [name]:
        return False
    if isinstance(place, (cst.Global, cst.Nonlocal)):
        return False
    named = isinstance(place, cst.Name) and place.value == name
    return named or any(_reads(one, name) for one in tree.children(place))


def taken_out(machine: Machine, value: Value, held: Value) -> Value:
    """What is taken out of a list, or of an iterator, in turns over samples: the next one for the next sample.

    Each rank would take the first ones for its own.
    """
    loop = _over_samples(machine, held) if value.scale is Scale.CONST else None
    if loop is None:
        return value
    turns = lengths.turns_of(machine, loop.node) or NOTHING
    return Value(scale=Scale.COUPLED, sources=value.sources | turns.sources)


def are_over_samples(machine: Machine) -> bool:
    """Whether what runs is seen to be in a turn for each sample: what is made there is one sample's."""
    return _over_samples(machine, NOTHING) is not None
