"""The places of samples in a batch, and what they are paired with by them, as a run for evidence sees it.

With a whole batch each sample has a place of its own; in a rank's share all are counted from the first place on. So
numbers that are counted from the size of a batch (`arange(len(x))`, `arange(batch_size)` by what its loader was given,
the turns of `enumerate(x)`) carry a mark (`Placed`), and so does a tensor of which samples are told apart by their
places (`mask[0] = 1`). Rows of something else that are taken by such numbers (`table[: len(x)]`, `zip(x, table)`) carry
another (`Paired`). What a batch's own rows are found by, they are found by on each rank: `logits[arange(len(x)),
labels]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const, Obj
from distify_codemods.interpreter import holding
from distify_codemods.libraries import python, torch_nn
from distify_codemods.objects import Arguments, External, Mapping, Passing, Sequence, Setting
from distify_codemods.ordered import Ordered
from distify_codemods.origins import FILLED, PART, Counter, Paired, Placed, Row, Share, Single, Zero
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value, sources_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_MARKS = (Placed, Paired)


def places(of: Value) -> list[Obj | str]:
    """What says of a tuple, too, that it is of one sample, or of another than stands there: its parts are of that."""
    return [source for source in of.sources if isinstance(source, (Row, Single, Placed))]


def followed(machine: Machine, receiver: Value, node: cst.Subscript, keys: list[Value], item: Value) -> Value:
    """What was taken out of a tensor, marked if by places in the batch; of the batch itself these are its own."""
    if not machine.evidence:
        return item
    if receiver.scale is not Scale.CONST:
        return item if any(map(picks_by_place, keys)) else _without_places(item, receiver)
    if is_filled(receiver):
        return item
    by_place = any(
        is_counted(machine, bounds(element.slice, key) or element.slice)
        or _is_cut_off(machine, element.slice)
        or any(isinstance(one, Placed) for one in key.sources)
        for element, key in zip(node.slice, keys, strict=True)
    )
    if by_place:
        return _paired(machine, node, item)
    return _by_turns(machine, node, item, keys[0]) if _are_rows(receiver) and not _is_of_one_number(item) else item


def _by_turns(machine: Machine, node: cst.CSTNode, item: Value, number: Value) -> Value:
    """What was taken by the number of a turn, in each of which there is another batch, maybe."""
    if number.scale is not Scale.CONST:
        return item  # by numbers of samples, which were dealt out by turns themselves
    counters = [one for one in number.sources if isinstance(one, Counter)]
    return item.adding([machine.mark(Paired, node, counter, by=counter) for counter in counters])


def _is_of_one_number(item: Value) -> bool:
    """Of a table with one for each turn: `numpy.linspace(0, 1, steps)[step]`"""
    return bool(item.objs) and all(isinstance(obj, (Const, Setting)) for obj in item.objs)


def picks_by_place(key: Value) -> bool:
    """`x[arange(len(x)) < 4]`: a mask says which places these are."""
    return key.mask and any(isinstance(one, Placed) for one in key.sources)


def _without_places(item: Value, receiver: Value) -> Value:
    """The same, by whichever numbers it was found: what `receiver` has to do with places, it has still."""
    placed = [one for one in item.sources if isinstance(one, Placed) and one not in receiver.sources]
    return item.with_sources(item.sources - set(placed)) if placed else item


def _paired(machine: Machine, node: cst.CSTNode, item: Value) -> Value:
    rest = Ordered(one for one in item.sources if not isinstance(one, Placed))  # one mark says it
    return item.with_sources(rest | [machine.mark(Paired, node)])


def picked(machine: Machine, name: str, table: Value, arguments: Arguments, node: cst.CSTNode, item: Value) -> Value:
    """`table.index_select(0, torch.arange(len(x)))`"""
    if not machine.evidence or name not in _PICKING:
        return item
    if table.scale is not Scale.CONST:
        return _without_places(item, table)
    by_place = any(isinstance(one, Placed) for key in arguments.all() for one in key.sources)
    return _paired(machine, node, item) if by_place and not is_filled(table) else item


_PICKING = frozenset({"index_select", "take", "gather", "take_along_dim"})


def zipped(
    machine: Machine, parts: tuple[Value, ...], items: tuple[Value, ...], node: cst.CSTNode
) -> tuple[Value, ...]:
    """`zip(x, table)`: what each of the iterables gives in a turn."""
    if not machine.evidence:
        return items
    if not any(map(_goes_through_samples, parts)):
        return _zipped_by_turns(machine, parts, items, node)
    return tuple(
        _paired(machine, _over(node), item) if part.scale is Scale.CONST and _are_rows(part) else item
        for part, item in zip(parts, items, strict=True)
    )


def _zipped_by_turns(
    machine: Machine, parts: tuple[Value, ...], items: tuple[Value, ...], node: cst.CSTNode
) -> tuple[Value, ...]:
    """`zip(loader, table.split(8))`, in the turns of a loop."""
    if not isinstance(node, cst.For):
        return items
    turn = Value(sources=machine.made(Counter, node, loop=node).alone)
    return tuple(
        _by_turns(machine, node.iter, item, turn) if _is_a_list_of_rows(part) else item
        for part, item in zip(parts, items, strict=True)
    )


def _is_a_list_of_rows(part: Value) -> bool:
    told = all(isinstance(obj, (Sequence, Mapping)) for obj in part.objs)
    return told and part.scale is Scale.CONST and _are_rows(part) and not _is_of_one_number(holding.any_item(part))


def numbered(machine: Machine, over: Value, number: Value, node: cst.CSTNode) -> Value:
    """The number of a turn that goes through `over`: of samples, it is their place."""
    counts = machine.evidence and (over.scale is Scale.COUNT or _goes_through_samples(over))
    return number.adding([machine.mark(Placed, _over(node))]) if counts else number


def _over(turns: cst.CSTNode) -> cst.CSTNode:
    """What a loop goes through."""
    return turns.iter if isinstance(turns, (cst.For, cst.CompFor)) else turns


def turned_round(machine: Machine, over: Value, iterator: Value, node: cst.CSTNode) -> Value:
    """`reversed(x)`"""
    return (
        iterator.adding([machine.mark(Placed, node)]) if machine.evidence and _goes_through_samples(over) else iterator
    )


def gives_samples(over: Value) -> bool:
    """Whether iterating gives the samples of a batch, one by one."""
    passing = [obj for obj in over.objs if isinstance(obj, Passing)]
    if passing:
        return any(gives_samples(one) for obj in passing for one in (obj.over or NOTHING, *obj.zipped))
    if any(isinstance(obj, Sequence) and obj.is_of_samples for obj in over.objs):
        return True
    return not over.objs and over.scale in PER_SAMPLE and PART in over.sources


def goes_through_a_tensor(over: Value) -> bool:
    """Whether iterating gives the samples of a batch for certain: it is one tensor, a list made of it, or numbers."""
    passing = [obj for obj in over.objs if isinstance(obj, Passing)]
    if passing:
        return any(goes_through_a_tensor(one) for obj in passing for one in (obj.over or NOTHING, *obj.zipped))
    if counts_samples(over) or any(isinstance(obj, Sequence) and obj.is_of_samples for obj in over.objs):
        return True
    return gives_samples(over) and over.scale is not Scale.TURNED and (over.mask or over.dims > 0)


def iterated(over: Value) -> Value:
    """What is gone through, however it is zipped or numbered."""
    passing = [obj for obj in over.objs if isinstance(obj, Passing)]
    inner = [iterated(one) for obj in passing for one in (obj.over or NOTHING, *obj.zipped)]
    return over.adding(sources_of(inner)) if inner else over


def counts_samples(over: Value) -> bool:
    """Whether iterating gives their numbers: `range(len(x))`"""
    numbers = bool(over.objs) and all(isinstance(obj, External) and obj.name in python.NUMBERS for obj in over.objs)
    return numbers and over.scale is Scale.COUNT


def _goes_through_samples(over: Value) -> bool:
    """The same; of batches that are cut by hand, which are tensors, too."""
    cut = any(isinstance(one, Share) for one in over.sources)
    return gives_samples(over) or (cut and not over.objs and over.scale in PER_SAMPLE)


# ---- tables


def is_a_table(value: Value) -> bool:
    """Rows of numbers, as a library has read them, or a list of them: no modules."""
    return bool(value.objs) and all(map(_has_rows, value.objs))


def _are_rows(value: Value) -> bool:
    """Rows of numbers that may differ, or numbers that are counted."""
    if is_filled(value):
        return False
    passing = [obj for obj in value.objs if isinstance(obj, Passing)]
    inner = [one for obj in passing for one in (obj.over, *obj.zipped) if one is not None]
    return all(map(_are_rows, inner)) and all(_has_rows(obj) for obj in value.objs if obj not in passing)


def _has_rows(obj: Obj) -> bool:
    if isinstance(obj, (Sequence, Mapping)):
        held = obj.parts() if isinstance(obj, Sequence) else [obj.any()]
        return all(one.scale is Scale.CONST and not one.objs - _literals(one) for one in held)
    return isinstance(obj, External) and not obj.name.startswith(torch_nn.OWN)


def _literals(value: Value) -> Ordered[Obj]:
    return Ordered(obj for obj in value.objs if isinstance(obj, Const))


def bounds(part: cst.BaseSlice, key: Value) -> cst.Slice | None:
    """The bounds of `a:b`, and of what `slice(a, b)` made."""
    if isinstance(part, cst.Slice):
        return part
    made = key.single()
    call = made.site if isinstance(made, External) and made.name == python.SLICE else None
    plain = isinstance(call, cst.Call) and all(one.keyword is None and not one.star for one in call.args)
    given = [one.value for one in call.args] if plain and isinstance(call, cst.Call) else []
    return cst.Slice(lower=given[0], upper=given[1]) if len(given) == 2 else None


def is_counted(machine: Machine, cut: cst.BaseSlice) -> bool:
    """`[i]`, `[: len(x)]`, by the number of samples."""
    bounds = (
        (cut.lower, cut.upper) if isinstance(cut, cst.Slice) else (cut.value,) if isinstance(cut, cst.Index) else ()
    )
    return any(machine.values.get(one, NOTHING).scale is Scale.COUNT for one in bounds if one is not None)


def is_batch_size(machine: Machine, value: Value) -> bool:
    """Whether it is the number of samples that a loader is given."""
    return bool(value.objs) and all(obj in machine.batch_sizes for obj in value.objs)


def _is_cut_off(machine: Machine, part: cst.BaseSlice) -> bool:
    """`[:batch_size]`"""
    upper = part.upper if isinstance(part, cst.Slice) else None
    return upper is not None and is_batch_size(machine, machine.values.get(upper, NOTHING))


def is_filled(value: Value) -> bool:
    """Whether all rows are the same, and stay so."""
    plain = all(isinstance(one, (Const, Counter, Setting)) or one == FILLED for one in value.sources)
    return FILLED in value.sources and plain and all(isinstance(obj, Zero) for obj in value.objs)
