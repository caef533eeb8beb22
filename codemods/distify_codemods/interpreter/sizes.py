"""Tensors that are made from sizes: zeros, noise, numbers in order. One of the sizes may be the number of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const
from distify_codemods.interpreter import holding, scales
from distify_codemods.libraries import drawing
from distify_codemods.libraries import sizes as table
from distify_codemods.objects import Arguments, Sequence, Setting
from distify_codemods.ordered import Ordered
from distify_codemods.origins import FILLED, NO_ROWS, Zero
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import Value, sources_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

S = Scale


def given(name: str, arguments: Arguments) -> list[Value] | None:
    """The sizes that a function is given, one by one where they are known; None: it makes nothing by sizes."""
    if name in table.COUNTED:
        return _counted(name, arguments)
    where = table.of(name)
    if where is None:
        return None
    named = arguments.get(where.name)
    if named is not None:
        return holding.flat([named])
    if where.one_by_one:
        return holding.flat([*arguments.positional, *filter(None, [arguments.star])])
    found = arguments.positional[_place(where, arguments)]
    return holding.flat(found or filter(None, [arguments.star]))


def _place(where: table.Sizes, arguments: Arguments) -> slice:
    """Where among what is given by position the sizes are, if no name says it."""
    place = where.position if where.position != table.LAST else max(len(arguments.positional) - 1, 1)
    return slice(place, place + 1)


def _counted(name: str, arguments: Arguments) -> list[Value]:
    """`arange(n)`, `arange(0, n)`: as many as its end says; else it is told by several."""
    start, end, step = (arguments.get(one, place) for place, one in enumerate(table.COUNTED[name]))
    if end is None:
        return [value for value in (start,) if value is not None]
    plain = (start is None or start.constant() == 0) and (step is None or step.constant() == 1)
    told = [value for value in (start, end, step) if value is not None]
    return [end] if plain or all(value.scale is S.CONST for value in told) else [Value(scale=S.UNKNOWN)]


def made(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    sizes = given(name, arguments)
    if sizes is None:  # `torch.FloatTensor(n, 1)`
        sizes = holding.flat(arguments.positional)
    scale, sources = _filled(name, arguments, sized(sizes)), sources_of([*sizes, *_entries(name, arguments)])
    if scale is not S.CONST:
        is_filled = name in table.FILLED or name in table.DRAWN
        return Value(scale=scale, sources=sources, dims=len(sizes) - (arguments.star is not None) if is_filled else 0)
    settings = (obj for value in sizes for obj in value.objs if isinstance(obj, (Setting, Const)))
    zero = [machine.made(Zero, node)] if name.endswith(".zeros") else []
    filled = [FILLED] if machine.evidence and name.endswith(_FILLED) else []
    return Value(Ordered(zero), sources=sources.union(settings, filled, _rows(machine, sizes)))


def _rows(machine: Machine, sizes: list[Value]) -> list[str]:
    followed = machine.evidence or machine.gathering is not None
    return [NO_ROWS] if followed and sizes and sizes[0].constant() == 0 else []


def listed(machine: Machine, name: str, arguments: Arguments) -> list[str]:
    """What is known of the rows that a tensor is given one by one: `torch.tensor([])`, `torch.Tensor()`."""
    if not name.endswith(_OF_ITEMS) or not (machine.evidence or machine.gathering is not None):
        return []
    given = arguments.first.single()
    empty = isinstance(given, Sequence) and given.items == () and given.element is None
    return [NO_ROWS] if empty or not (arguments.positional or arguments.keywords) else []


_OF_ITEMS = ("Tensor", ".tensor", ".as_tensor", ".array", ".asarray")


_FILLED = (".zeros", ".ones", ".full")


def _entries(name: str, arguments: Arguments) -> list[Value]:
    """What says which entries there are: what is filled in, or between which numbers is drawn."""
    where = table.of(name)
    if where is None or not table.is_told_entries(name):
        return []
    positional = [] if where.one_by_one else list(arguments.positional)
    if where.name not in arguments.keywords:
        del positional[_place(where, arguments)]
    named = (value for one, value in arguments.keywords.items() if one not in (where.name, *table.OPTIONS))
    return [*positional, *named]


def _filled(name: str, arguments: Arguments, scale: Scale) -> Scale:
    """Sizes may be those of the batch, and so may what it is filled with, or between which numbers it is drawn."""
    entries = [value.scale for value in _entries(name, arguments)]
    if name in drawing.OF_NUMBERS and PER_SAMPLE & set(entries):
        return S.COUPLED  # some of the samples, in another order
    return scales.elementwise(scale, *entries, nonlinear_is_fine=name.endswith(".full"))


def makes(name: str, arguments: Arguments) -> bool:
    """Whether a function is given sizes, as `torch.FloatTensor(n, 1)` is, and not `torch.FloatTensor([n])`."""
    sizes = given(name, arguments)
    if sizes is not None:
        return bool(sizes) and name not in table.CHOSEN
    positional = arguments.positional
    held = any(isinstance(obj, Sequence) for value in positional for obj in value.objs)
    if not name.endswith("Tensor") or not positional or held:
        return False
    return len(positional) > 1 or positional[0].scale is S.COUNT or isinstance(positional[0].constant(), int)


def sized(sizes: list[Value]) -> Scale:
    """A tensor of these sizes, by which of them is the number of samples."""
    if any(value.scale is S.UNKNOWN for value in sizes):
        return S.UNKNOWN
    place = next((place for place, value in enumerate(sizes) if value.scale is S.COUNT), None)
    return S.CONST if place is None else {0: S.SAMPLES, 1: S.TURNED}.get(place, S.UNKNOWN)
