"""What layers and functions drop at random while a model trains, wherever that is: also where nobody meant it to.

Figures of data that each rank has whole are the same on all ranks, unless something in them is dropped. They carry the
mark of it (`Dropped`); whether the model evaluates by then, the whole run says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.inside import contained, core
from distify_codemods.libraries import drawing, torch_nn
from distify_codemods.objects import External
from distify_codemods.origins import Dropped
from distify_codemods.scale import Scale
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_DEEPEST = 6  # blocks of blocks


def drops(obj: Obj) -> bool:
    """`nn.Dropout()`, `nn.Sequential(nn.Linear(4, 4), nn.Dropout())`"""
    return any(map(_is_dropout, (obj, *_parts(obj))))


def _is_dropout(obj: Obj) -> bool:
    return isinstance(obj, External) and obj.name.startswith(torch_nn.OWN) and "Dropout" in obj.name


def _parts(obj: Obj, depth: int = 0) -> Iterator[Obj]:
    """What a layer of a library, or a copy of one, was made of."""
    if isinstance(obj, External) and obj.arguments is not None and depth < _DEEPEST:
        for part in (core(part) for value in obj.arguments.all() for part in contained(value)):
            yield part
            yield from _parts(part, depth + 1)


def applied(machine: Machine, layer: External, value: Value, node: cst.CSTNode) -> Value:
    """What a layer returned, of data that are no rank's own."""
    dropped = value.scale is Scale.CONST and drops(layer)
    return value.adding([machine.mark(Dropped, node)]) if dropped else value


def called(machine: Machine, name: str, told: bool, value: Value, node: cst.CSTNode) -> Value:
    """The same of a function: `F.dropout(x)`; `told`: whether it is told if the model trains."""
    dropped = value.scale is Scale.CONST and not told and drawing.is_dropout(name)
    return value.adding([machine.mark(Dropped, node)]) if dropped else value
