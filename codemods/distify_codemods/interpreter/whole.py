"""Batches that are put together again: what a value is once all ranks have all of it, and how its samples lie.

Followed only where it is asked for (`Gathering`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const, Obj
from distify_codemods.interpreter import holding
from distify_codemods.libraries.torch_data import LOADERS
from distify_codemods.objects import Arguments, External, Sequence, Setting
from distify_codemods.ordered import Ordered
from distify_codemods.origins import (
    NO_ROWS,
    Beside,
    Choice,
    Cropped,
    Flattened,
    Foreign,
    Kept,
    Listed,
    Numbered,
    Outlived,
    Padded,
    Paired,
    Placed,
    Regrouped,
    Share,
    Single,
    Size,
    Through,
    Unseen,
    Views,
    Whole,
)
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


#: What is true of a value that was put together, too: of what it was made, and what was wrong with each rank's part.
_STILL_TRUE = (
    *(Whole, Setting, Const, Kept, Foreign, Listed, Padded, Choice, Through),
    *(Cropped, Outlived, Paired, Placed, Single, Unseen),
)


def of_all_ranks(machine: Machine, value: Value, node: cst.CSTNode, loaders: frozenset[str]) -> Value:
    """The value, and each part of it, as that of the whole batch: the same on all ranks, whatever went into it.

    Its parts stay what they were: a list of samples on each rank, padded to a length of its own, or chosen by each.
    """
    objs = holding.mapped(machine, value, node, "whole", lambda one: of_all_ranks(machine, one, node, loaders))
    sources: list[Obj | str] = []
    for source in value.sources:
        if isinstance(source, Share) or (isinstance(source, External) and source.name in loaders):
            sources.append(machine.made(Whole, None, source, of=source))
        elif isinstance(source, _STILL_TRUE):
            sources.append(source)
    return Value(objs, Scale.CONST, Ordered(sources), open=value.open)


# ---- how the samples lie

_REGROUPING = frozenset(
    """view reshape flatten ravel unflatten chunk split tensor_split unbind repeat repeat_interleave tile index_select
    masked_select gather scatter take roll flip flipud unfold reshape_as view_as""".split()
)


def joined(machine: Machine, value: Value, parts: Value, node: cst.CSTNode) -> Value:
    """`torch.cat([one, other])`: the samples of one behind those of the other, if each has as many as the share."""
    if machine.gathering is None or value.scale is not Scale.SAMPLES:
        return value
    layouts = any(isinstance(source, (Views, Regrouped)) for source in value.sources)
    uneven = layouts or _has_other_rows(parts) or not _are_of_one_share(_parts(parts))
    views = machine.made(Views, node)
    listed = parts.single()
    views.count = len(listed.items) if isinstance(listed, Sequence) and listed.items is not None else None
    return value.adding([views, *([machine.made(Regrouped, node)] if uneven else [])])


def beside(machine: Machine, value: Value, parts: Value, node: cst.CSTNode) -> Value:
    """What is joined, marked if a rank's samples are, and rows that each rank has all of."""
    if NO_ROWS in value.sources and not all(NO_ROWS in one.sources for one in _parts(parts)):
        value = value.with_sources(value.sources - {NO_ROWS})
    return value.adding([machine.mark(Beside, node)]) if machine.evidence and _has_other_rows(parts) else value


def _parts(listed: Value) -> list[Value]:
    """The tensors of a list, as far as they are told apart."""
    return [part for obj in listed.objs if isinstance(obj, Sequence) for part in obj.parts()]


def _has_other_rows(parts: Value) -> bool:
    """Whether some of what is joined has rows for a rank's samples, and some has others."""
    given = [part for part in _parts(parts) if NO_ROWS not in part.sources]
    shares = any(part.scale in PER_SAMPLE for part in given)
    others = any(part.scale is Scale.CONST for part in given)
    return (shares and others) or any(isinstance(obj, Sequence) and obj.mixed for obj in parts.objs)


def _are_of_one_share(parts: list[Value]) -> bool:
    """Whether all have something of one loader, or one cut: two of them may deal out batches of different sizes."""
    dealt = [{source for source in part.sources if _deals(source)} for part in parts if NO_ROWS not in part.sources]
    return not dealt or bool(set.intersection(*dealt))


def _deals(source: Obj | str) -> bool:
    return isinstance(source, Share) or (isinstance(source, External) and source.name in LOADERS)


def numbered(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    """`torch.arange(len(batch))`"""
    if machine.gathering is None or value.scale not in (Scale.SAMPLES, Scale.TURNED):
        return value
    return Value(value.objs, value.scale, value.sources | [machine.made(Numbered, node)], open=value.open)


def regrouped(
    machine: Machine, name: str, tensor: Value, arguments: Arguments, value: Value, node: cst.CSTNode
) -> Value:
    """After a `view`, a `split`, …, a row may no longer be a sample, nor the rows in their order."""
    if machine.gathering is None or name not in _REGROUPING or tensor.scale is Scale.CONST:
        return value
    if _keeps_rows(name, tensor, arguments):
        return value
    mark = _flattened(machine, name, tensor, arguments, node) or machine.made(Regrouped, node)
    objs = Ordered(_marked(machine, obj, node, mark) for obj in value.objs)
    return replace(value, objs=objs, sources=value.sources | [mark])


def _flattened(machine: Machine, name: str, tensor: Value, arguments: Arguments, node: cst.CSTNode) -> Obj | None:
    """What leaves all of a sample together, or all of a step: it is seen when it runs how many rows that makes."""
    if name not in ("view", "reshape", "flatten") or any(isinstance(one, (Views, Regrouped)) for one in tensor.sources):
        return None
    if tensor.scale is Scale.SAMPLES:
        return None if _steps_of(tensor) else machine.made(Flattened, node, False)
    if tensor.scale is not Scale.TURNED:
        return None
    if name == "flatten":
        start, end = arguments.get("start_dim", 0), arguments.get("end_dim", 1)
        whole = start is None and end is None
        merges = whole or ((start and start.constant()) in (0, None) and end is not None and end.constant() == 1)
    else:
        merges = len(arguments.positional) in (1, 2)
    return machine.made(Flattened, node, True, by_step=True) if merges else None


def _steps_of(tensor: Value) -> bool:
    return any(isinstance(one, Flattened) and one.by_step for one in tensor.sources)


def _marked(machine: Machine, obj: Obj, node: cst.CSTNode, mark: Obj) -> Obj:
    if not isinstance(obj, Sequence):
        return obj
    copy = machine.made(Sequence, node, obj, "regrouped", per_sample=obj.per_sample)
    if obj.element is not None:
        element = obj.element
        copy.element = Value(element.objs, element.scale, element.sources | [mark], element.mask)
    return copy


def _keeps_rows(name: str, tensor: Value, arguments: Arguments) -> bool:
    """Whether the dimension of the samples is left as it is, and what is before it."""
    place = 1 if tensor.scale is Scale.TURNED else 0
    if name in ("view", "reshape"):
        size = arguments.positional[place] if place < len(arguments.positional) else None
        return tensor.scale not in (Scale.SAMPLES, Scale.TURNED) or (size is not None and _is_size(size))
    if name == "flatten":
        start = arguments.get("start_dim", 0)
        known = start.constant() if start is not None else None
        return isinstance(known, int) and known > place
    position = 0 if name in ("unbind", "index_select", "gather", "scatter") else 1
    dimension = arguments.keywords.get("dim") or arguments.get("axis", position)
    known = dimension.constant() if dimension is not None else None
    return isinstance(known, int) and known != 0 and tensor.scale is Scale.SAMPLES and (known > 0 or tensor.dims > 1)


def _is_size(size: Value) -> bool:
    """The number of samples, not that of all their rows."""
    return size.scale is Scale.COUNT and any(isinstance(obj, Size) for obj in size.objs)


def through_a_model(machine: Machine, value: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    """A model makes of each row a row, however it reshapes them in between, or of each step's."""
    if machine.gathering is None:
        return value
    given = join(*arguments.all()).sources
    marks = Ordered(one for one in given if isinstance(one, (Views, Regrouped, Flattened)))
    return _laid_out(machine, value, marks, node)


def _laid_out(machine: Machine, value: Value, marks: Ordered[Obj | str], node: cst.CSTNode) -> Value:
    kept = Ordered(
        one for one in value.sources
        if not isinstance(one, Regrouped) and not (marks and isinstance(one, Views))
    )  # fmt: skip
    objs = holding.mapped(machine, value, node, "laid out", lambda one: _laid_out(machine, one, marks, node))
    return replace(value, objs=objs, sources=kept | marks)
