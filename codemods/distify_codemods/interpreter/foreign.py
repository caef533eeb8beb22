"""What something unknown keeps of the figures that it is given: whatever it gives later may be made of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from distify_codemods import libraries
from distify_codemods.allocation import Obj
from distify_codemods.libraries import python
from distify_codemods.objects import Arguments, External
from distify_codemods.scale import FIGURES, Scale
from distify_codemods.values import Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_KEPT = "<kept>"  # the attribute that holds them


def given(machine: Machine, obj: Obj, arguments: Arguments) -> None:
    """A method of it is called: `smoothed.update(loss.item())`."""
    if isinstance(obj, External) and _may_keep(obj.name):
        figures = [one for one in arguments.all() if one.sources and one.scale in FIGURES]
        if figures:
            machine.keep(obj.attributes, _KEPT, replace(join(*figures), scale=Scale.UNKNOWN), obj)


def with_kept(obj: Obj, value: Value) -> Value:
    """What is had of it: what a method returns, an attribute, an item."""
    kept = obj.attributes.get(_KEPT) if isinstance(obj, External) else None
    return value if kept is None else replace(value, scale=Scale.UNKNOWN, sources=value.sources | kept.sources)


def _may_keep(name: str) -> bool:
    return name in python.KEEPS_FIGURES or not libraries.knows(name.partition(".")[0])
