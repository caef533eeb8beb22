"""Whether something is None: decided by the way on which it was made, not by the numbers in it.

`kld = None` and, if the script is told so, a mean over samples: which of the two it is, all ranks agree upon, whatever
the mean says. Unless ranks may go different ways: under a test that depends on more than settings, in a handler, after
one of them has left the loop or the function. What is made there has the source `ON_A_WAY`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const, Obj
from distify_codemods.interpreter import scales
from distify_codemods.objects import Setting
from distify_codemods.ordered import Ordered
from distify_codemods.origins import (
    BY_CHANCE,
    CHANCE,
    COMPUTED,
    CUT_OFF,
    LENGTH,
    ON_A_WAY,
    OUTCOME,
    PART,
    PIECE,
    SEVERAL,
    Counter,
    Placed,
    Storage,
)
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: Of a number or tensor whose making was followed: it is no None that a function gave in its place.
_SEEN = PER_SAMPLE | {Scale.MEAN, Scale.SUM, Scale.WEIGHTED}
_OF_NUMBERS = frozenset({CHANCE, BY_CHANCE, CUT_OFF, OUTCOME})
_NOT_OF_SAMPLES = frozenset({Scale.CONST, Scale.REDUCED, Scale.COUNT})
#: Turns of which there are as many on all ranks.
_ALIKE = frozenset({Scale.CONST, Scale.REDUCED, Scale.SAMPLES, Scale.TURNED, Scale.COUNT})


def may_part(value: Value) -> bool:
    """Whether ranks may go different ways by it: it depends on more than settings, counters and sizes."""
    if value.scale in (Scale.COUNT, Scale.REDUCED):
        return False
    alike = (Setting, Const, Counter, Placed, Storage)
    return any(
        not isinstance(one, alike) and one not in (LENGTH, PART, PIECE, COMPUTED, SEVERAL) for one in value.sources
    )


def turns_part(node: cst.For | cst.While, test: Value) -> bool:
    """Whether ranks may take another number of turns. `test`: what is gone through, or asked."""
    return may_part(test) and (isinstance(node, cst.While) or test.scale not in _ALIKE)


def marked(machine: Machine, value: Value) -> Value:
    """What is made here, if ranks may come here or not."""
    if not (machine.parted or machine.frame.parted) or ON_A_WAY in value.sources:
        return value
    return on_a_way(value)


def on_a_way(value: Value) -> Value:
    """Objects whose roles are looked for have no such source."""
    return value.adding([ON_A_WAY]) if value.sources or value.is_none else value


def chosen(value: Value, by: Value) -> Value:
    """An item, by a key or place that may be another one on each rank, or for each sample."""
    value = of_each(value, by)
    return on_a_way(value) if may_part(by) else value


def of_each(value: Value, by: Value) -> Value:
    """A number that is taken by what a batch has of each sample, `WEIGHTS[name]`, is one of each sample, too."""
    plain = value.scale is Scale.CONST and (not value.objs or value.are_literals)
    if by.scale in _NOT_OF_SAMPLES or not plain:
        return value
    return Value(scale=scales.elementwise(by.scale), sources=value.sources | by.sources)


def is_none(value: Value) -> Value | None:
    """`value is None`, where that does not depend on numbers."""
    if value.scale not in _SEEN or ON_A_WAY in value.sources:
        return None
    kept: Ordered[Obj | str] = Ordered(one for one in value.sources if isinstance(one, str) and one not in _OF_NUMBERS)
    return Value(sources=kept)


def interrupted(machine: Machine, before: dict[str, Value]) -> None:
    """In a handler: what its `try` has given a value may have been given it, or not."""
    env = machine.frame.env
    for name, value in env.items():
        if value is not before.get(name, NOTHING):
            env[name] = on_a_way(value)
