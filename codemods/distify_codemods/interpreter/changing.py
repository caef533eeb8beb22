"""What is changed in place, under whichever name, as a run for evidence sees it: by the places of samples, or not.

`x[0] = 0`, `for row in x[:3]: row.zero_()` change some samples of a batch, which are others in a rank's share of it.
They are told by what a read of the place would give: no entry of each sample, nor one sample in each turn over all of
them. A tensor of which samples are told apart so, or by numbers that count them, carries the mark of that (`pairing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.interpreter import pairing, state, storages, subscripts
from distify_codemods.libraries import python
from distify_codemods.objects import External, Mapping, Passing, Sequence
from distify_codemods.origins import COMPUTED, PART, PIECE, SEVERAL, Counter, Paired, Placed, Row, Share, Single
from distify_codemods.scale import LOST, PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, SIZE, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def written(machine: Machine, target: cst.Subscript, receiver: Value, keys: list[Value], value: Value) -> None:
    """`x[0] = 0`, `mask[: len(x) // 2] = 1`; `x[i] = x[i] * i`, whatever `x` is."""
    if machine.evidence:
        part = subscripts.tensor_item(machine, receiver, target, keys) if _is_a_tensor(receiver) else NOTHING
        by_place = any(map(pairing.picks_by_place, keys))
        _put(machine, target, receiver, part, value, by_place)


def changed(machine: Machine, place: cst.BaseExpression, part: Value, given: Value, by_place: bool = False) -> None:
    """`torch.mul(x, 2, out=x[0])`, `row += 1`; `part`: what is changed, at `place`; `by_place`: by that of samples."""
    if machine.evidence:
        _put(machine, place, part, part, given, by_place and part.scale in PER_SAMPLE)


def called(machine: Machine, part: Value, value: Value, given: Value, node: cst.CSTNode) -> None:
    """`x[0].zero_()`, `x.tril_()`, `torch.Tensor.zero_(x[0])`; `part`: what is changed, `value`: what it becomes."""
    if machine.evidence and isinstance(node, cst.Call):
        place = node.func.value if isinstance(node.func, cst.Attribute) else node
        lost = (value.scale in LOST and given.scale is Scale.CONST) or (
            value.scale in PER_SAMPLE and value.scale is not part.scale  # `x.t_()`: they lie along another dimension
        )
        by_place = part.scale in PER_SAMPLE and lost
        _put(machine, place, part, part, given, by_place)


def _put(
    machine: Machine, place: cst.BaseExpression, receiver: Value, part: Value, given: Value, by_place: bool
) -> None:
    storages.touch(machine, receiver)
    told = given.sources | machine.control
    found: list[Obj | str] = [one for one in told if isinstance(one, (Placed, Paired))]
    parts = ((one, whole) for whole in storages.whole(machine, receiver) for one in (part, receiver))
    other = not found and (_is_of_another(part, given) or any(_is_of_some(machine, *both) for both in parts))
    related = given.scale is Scale.COUPLED and receiver.scale in PER_SAMPLE
    if by_place or other or (related and not any(isinstance(one, Row) for one in given.sources)):
        found.append(machine.mark(Placed, place))
    if not found:
        return
    storages.change(machine, receiver, found)
    for frame, _, root in () if storages.of(receiver) else state.reached(machine, place):
        state.put(machine, root, found, frame=frame)


def _is_a_tensor(value: Value) -> bool:
    """A batch as it comes from its loader has parts of its own."""
    told = value.sources & {PART, COMPUTED} or any(isinstance(one, Share) for one in value.sources)
    return (
        bool(told)
        and SEVERAL not in value.sources
        and not any(isinstance(obj, (Sequence, Mapping)) for obj in value.objs)
    )


def _is_of_some(machine: Machine, part: Value, whole: Value) -> bool:
    """Whether a part of a tensor of samples is of some of them, which are told by their places."""
    if whole.scale not in PER_SAMPLE or not _is_a_tensor(part):
        return False
    rows = [one for one in part.sources if isinstance(one, Row) and one not in whole.sources]
    if rows:
        return not all(one.by is not None and _goes_through_all(machine, one.by) for one in rows)
    single = any(one == PIECE or isinstance(one, Single) for one in part.sources if one not in whole.sources)
    return part.scale in LOST or single


def _is_of_another(part: Value, given: Value) -> bool:
    """Whether a sample is given what another one has."""
    own = {one for one in part.sources if isinstance(one, Row)}
    return bool(own) and any(isinstance(one, Row) and (one.by is None or one not in own) for one in given.sources)


def _goes_through_all(machine: Machine, counter: Counter) -> bool:
    """Whether a loop comes to each sample of its batch."""
    over = machine.values.get(counter.loop.iter, NOTHING) if counter.loop is not None else NOTHING
    return counter.loop is not None and _is_all(machine, over)


def _is_all(machine: Machine, over: Value) -> bool:
    if not over.objs:
        return over.scale in PER_SAMPLE
    return all(_are_all(machine, obj) for obj in over.objs)


def _are_all(machine: Machine, obj: Obj) -> bool:
    if isinstance(obj, Passing):
        if obj.partial or obj.repeats:
            return False
        plain = not obj.numbered or (isinstance(obj.site, cst.Call) and len(obj.site.args) == 1)
        return plain and all(_is_all(machine, one) for one in (obj.over, *obj.zipped) if one is not None)
    if isinstance(obj, Sequence):
        return obj.of_each
    return isinstance(obj, External) and obj.name in python.NUMBERS and _counts_all(machine, obj)


def _counts_all(machine: Machine, numbers: External) -> bool:
    """`range(len(x))`, `range(0, len(x))`"""
    call = numbers.site
    given = [machine.values.get(one.value, NOTHING) for one in call.args] if isinstance(call, cst.Call) else []
    ends = given[min(len(given), 2) - 1] if given else NOTHING
    return ends.objs == SIZE and (len(given) < 2 or (len(given) == 2 and given[0].constant() == 0))
