"""What is not of a batch, and whose rows are taken by numbers that are counted from the number of its samples.

`table[torch.arange(len(x))]`, `table[: len(x)]`, `table[i]` for each `i` of `range(len(x))`: with a whole batch, each
sample has a row of its own; of a rank's share, all are counted from the first row on. Followed where evidence is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const, Obj
from distify_codemods.libraries import torch_nn
from distify_codemods.objects import Arguments, External, Sequence, Setting
from distify_codemods.ordered import Ordered
from distify_codemods.origins import BY_PLACE, FILLED, Paired, Zero
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def followed(machine: Machine, receiver: Value, node: cst.Subscript, keys: list[Value], item: Value) -> Value:
    """What was taken out of a tensor, marked if by places in the batch; of the batch itself these are its own."""
    if not machine.evidence:
        return item
    if receiver.scale is not Scale.CONST:
        own = BY_PLACE in receiver.sources
        return item if own else item.with_sources(Ordered(one for one in item.sources if one != BY_PLACE))
    by_place = any(
        is_counted(machine, element.slice) or (BY_PLACE in key.sources and key.scale is not Scale.CONST)
        for element, key in zip(node.slice, keys, strict=True)
    )
    return item.adding([machine.mark(Paired, node)]) if by_place and not is_filled(receiver) else item


def picked(machine: Machine, name: str, table: Value, arguments: Arguments, node: cst.CSTNode, item: Value) -> Value:
    """`table.index_select(0, torch.arange(len(x)))`"""
    if not machine.evidence or name not in _PICKING or table.scale is not Scale.CONST or is_filled(table):
        return item
    by_place = any(BY_PLACE in key.sources for key in arguments.all())
    return item.adding([machine.mark(Paired, node)]) if by_place else item


_PICKING = frozenset({"index_select", "take"})


def is_a_table(value: Value) -> bool:
    """Rows of numbers, as a library has read them, or a list of them: no modules."""
    return bool(value.objs) and all(map(_has_rows, value.objs))


def _has_rows(obj: Obj) -> bool:
    if isinstance(obj, Sequence):
        return all(one.scale is Scale.CONST and not one.objs - _literals(one) for one in obj.parts())
    return isinstance(obj, External) and not obj.name.startswith(torch_nn.OWN)


def _literals(value: Value) -> Ordered[Obj]:
    return Ordered(obj for obj in value.objs if isinstance(obj, Const))


def is_counted(machine: Machine, cut: cst.BaseSlice) -> bool:
    """`[i]`, `[: len(x)]`, by the number of samples."""
    bounds = (
        (cut.lower, cut.upper) if isinstance(cut, cst.Slice) else (cut.value,) if isinstance(cut, cst.Index) else ()
    )
    return any(machine.values.get(one, NOTHING).scale is Scale.COUNT for one in bounds if one is not None)


def is_filled(value: Value) -> bool:
    """Whether all rows are the same, and stay so."""
    plain = all(isinstance(one, (Const, Setting)) or one == FILLED for one in value.sources)
    return FILLED in value.sources and plain and all(isinstance(obj, Zero) for obj in value.objs)
