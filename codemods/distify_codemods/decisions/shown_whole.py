"""Objects that are shown with all that they hold: `print(record)`, `f"{meter}"`, `print(vars(state))`."""

from __future__ import annotations

from collections.abc import Iterator

from distify_codemods.allocation import Obj
from distify_codemods.facts import Facts
from distify_codemods.libraries import python, settings
from distify_codemods.objects import External, Instance, Mapping, Sequence
from distify_codemods.scale import Scale
from distify_codemods.settled import is_module
from distify_codemods.values import Value

_DEEPEST = 3


def holds_own(facts: Facts, value: Value, depth: int = 0) -> bool:
    """Whether a figure of a rank's own samples is in something that a value stands for."""
    for held in (one for obj in value.objs for one in _held(obj)):
        if held.scale is not Scale.CONST and facts.shares_of_training(held):
            return True
        if depth < _DEEPEST and holds_own(facts, held, depth + 1):
            return True
    return False


def _held(obj: Obj) -> Iterator[Value]:
    """What an object says of itself where it is turned into a text."""
    if isinstance(obj, Sequence):
        yield from obj.parts()
    elif isinstance(obj, Mapping):
        yield from obj.items.values()
        yield from [obj.rest] if obj.rest is not None else []
    elif isinstance(obj, Instance) and obj.of is not None and not is_module(obj) and _speaks(obj):
        yield from obj.attributes.values()
        yield from _held(obj.holds) if obj.holds is not None else ()
    elif isinstance(obj, External) and obj.name in settings.NAMESPACES:
        yield from obj.attributes.values()


def _speaks(obj: Instance) -> bool:
    """Whether it shows what it holds: others show where they are in memory."""
    of = obj.of
    assert of is not None
    by_hand = any(of.member(name) is not None for name in python.AS_TEXT)
    return by_hand or obj.holds is not None or of.member("__init__") is None
