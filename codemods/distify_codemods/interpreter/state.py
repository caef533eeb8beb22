"""What is kept of a batch for the next one: queues, codebooks, centres, running statistics of features.

Each rank would keep what its own share says. A tensor that was there before the step and that something of the batch
is written into becomes state once the next batch is taken; what is made anew in each step does not. A tensor may have
several names: a function's parameter is what its caller has given, whoever writes into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import reads, tree
from distify_codemods.allocation import AT_THE_TOP, Obj
from distify_codemods.interpreter import forms, other_names, pooling, tallies
from distify_codemods.libraries import in_place
from distify_codemods.objects import External, Instance, Mapping, Sequence
from distify_codemods.ordered import Ordered
from distify_codemods.origins import Choice, Draw, Kept, Outlived, Pooled, Share, Whole, Zero
from distify_codemods.scale import LOST, PER_SAMPLE, Scale
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.frames import Frame
    from distify_codemods.interpreter.machine import Machine

#: Methods after which nothing is left of what was there.
_RENEWING = in_place.OVERWRITING | {"set_", "resize_"}
#: What earlier batches have left: a tensor with such an entry is of these, too.
_LEFT = (Kept, Pooled, Outlived)


def of_a_share(value: Value, loaders: frozenset[str]) -> bool:
    return bool(_dealt_by(value, loaders))


def _dealt_by(value: Value, loaders: frozenset[str]) -> tuple[Obj, ...]:
    return tuple(
        source
        for source in value.sources
        if isinstance(source, Share) or (isinstance(source, External) and source.name in loaders)
    )


def written(
    machine: Machine,
    place: cst.BaseExpression,
    node: cst.CSTNode,
    value: Value,
    loaders: frozenset[str],
    *,
    adds: bool = False,
    anywhere: bool = False,
    in_order: bool = False,
) -> None:
    """Something is written into the tensor at `place`, whatever other names it has.

    adds: beside what is there, each time that a place is named; anywhere: where samples say; in_order: at the place of
    each sample in its batch.

    What was made of something that batches left behind is of these batches still: `weights[k] = 1 / counts[k]`. Rows of
    all ranks are no rank's own: whatever takes them from there, takes those of the whole batch.
    """
    drawn_into(machine, place, node, value)
    wholes = (source for source in value.sources if isinstance(source, Whole))
    carried = [*left_in(value), *filter(_is_by_a_figure, value.sources), *wholes]
    left = (loader for one in value.sources if isinstance(one, Kept) for loader in one.of)
    dealt = tuple(dict.fromkeys((*_dealt_by(value, loaders), *left)))
    mark = machine.made(Kept, node, dealt, of=dealt) if dealt else None
    for frame, _, root in reached(machine, place) if dealt or carried else ():
        put(machine, root, carried, frame=frame)
        fills = mark is not None and not in_order
        table = root if fills and isinstance(root, cst.Name) else None
        if table and _fills(machine, frame, table, value, loaders, adds, anywhere):
            continue
        if mark is not None and isinstance(root, cst.Name):
            _mark_name(machine, frame, root.value, mark, loaders)
        elif mark is not None and isinstance(root, cst.Attribute):
            _mark_attribute(machine, root, mark, loaders)


def _is_of_a_table(machine: Machine, place: cst.Attribute) -> bool:
    """`frame.loc`, into which is written what `frame.nsmallest(8, "loss")` reads."""
    holders = machine.values.get(place.value, Value()).objs
    return any(isinstance(one, External) and in_place.is_a_table(one.name) for one in holders)


def _is_by_a_figure(source: Obj | str) -> bool:
    """`if losses.mean() > 1: weights[:2] = 2`; what is decided by a sample of its own is that sample's."""
    return isinstance(source, Choice) and source.by is not Scale.COUPLED


def reached(
    machine: Machine, place: cst.BaseExpression
) -> Iterator[tuple[Frame, cst.BaseExpression, cst.Name | cst.Attribute]]:
    """What the tensor at `place` is read as, here and where it has other names: an expression, and the name in it."""
    places, seen = [(machine.frame, place)], set[cst.CSTNode]()
    while places:
        frame, one = places.pop()
        root = _root(one)
        if root is not None and root not in seen:
            seen.add(root)
            yield frame, one, root
            places += other_names.others(machine, frame, root)
            if isinstance(root, cst.Attribute) and _is_of_a_table(machine, root):
                places.append((frame, root.value))


def _mark_name(machine: Machine, around: Frame, name: str, mark: Kept, loaders: frozenset[str]) -> None:
    frame = _holder(around, name)
    known = frame.env.get(name) if frame is not None else None
    if frame is None or known is None or not _is_lasting(known, loaders):
        return
    frame.env[name] = _with(known, mark)
    machine.pending[frame.number, name] = frame
    machine.count("pending")
    if frame is not machine.frame:
        reads.uncertain()


def _mark_attribute(machine: Machine, root: cst.Attribute, mark: Kept, loaders: frozenset[str]) -> None:
    for obj in machine.values.get(root.value, Value()).objs:
        if not isinstance(obj, Instance):
            continue
        known = obj.attributes.get(root.attr.value, Value())  # a registered buffer is not seen to be set
        if _is_lasting(known, loaders):
            mark.settled = True  # an attribute is there before the step
            obj.attributes[root.attr.value] = _with(known, mark)
            if mark not in known.sources:  # what was run before may be another thing now
                machine.stores += 1
                machine.traces.add(AT_THE_TOP)
                machine.summaries.clear()


def drawn_into(machine: Machine, place: cst.BaseExpression, node: cst.CSTNode, value: Value) -> None:
    """Random numbers are written into the tensor at `place`, as a run for evidence sees it."""
    draws: list[Obj | str] = [one for one in value.sources if isinstance(one, Draw)]
    put(machine, place, draws if machine.pooling is not None else [])


def put(
    machine: Machine,
    place: cst.BaseExpression,
    marks: list[Obj | str],
    frame: Frame | None = None,
) -> None:
    """What is written into the tensor at `place` has these marks.

    frame: where `place` is read; this one, if it is not told.
    """
    root = _root(place) if marks else None
    if isinstance(root, cst.Name):
        frame = _holder(frame or machine.frame, root.value)
        if frame is not machine.frame:
            reads.uncertain()
        if frame is not None:
            frame.env[root.value] = frame.env[root.value].adding(marks)
            pooling.named(machine, frame.env, root.value, frame.env[root.value], lasting=frame is not machine.frame)
    elif isinstance(root, cst.Attribute):
        for obj in machine.values.get(root.value, Value()).objs:
            if isinstance(obj, Instance):
                known = obj.attributes.get(root.attr.value, Value())
                machine.keep(obj.attributes, root.attr.value, known.adding(marks), obj)


def _fills(
    machine: Machine,
    frame: Frame,
    table: cst.Name,
    value: Value,
    loaders: frozenset[str],
    adds: bool,
    anywhere: bool = False,
) -> bool:
    """Whether it is a table that this turn has made."""
    known = frame.env.get(table.value)
    if known is None:
        return False
    own = of_a_share(known, loaders)
    return tallies.filled(machine, frame, table, known, value, own=own, adds=adds, anywhere=anywhere)


def added(machine: Machine, place: cst.Name, value: Value, now: Value, loaders: frozenset[str]) -> None:
    """`row += values`, `x -= x.mean(0)`, where it shows a tensor that has another name; `now`: what it has become."""
    if not of_a_share(value, loaders):
        return
    for frame, _, root in reached(machine, place):
        if not isinstance(root, cst.Name) or root is place:
            continue
        known = frame.env.get(root.value, Value())
        fills = _fills(machine, frame, root, value, loaders, adds=True)
        if not fills and known.scale in PER_SAMPLE and now.scale in LOST:
            frame.env[root.value] = Value(scale=Scale.COUPLED, sources=known.sources | now.sources, dims=known.dims)
            reads.uncertain()


def method(machine: Machine, name: str, node: cst.CSTNode, value: Value, loaders: frozenset[str]) -> None:
    """`centers.index_add_(0, labels, features)`; `one_hot.zero_()`"""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return
    part = name in in_place.OVERWRITING and not _is_whole(node.func.value)
    if part or name in in_place.METHODS or name in in_place.OF_ARRAYS:
        adds = name in in_place.ADDS
        written(machine, node.func.value, node, value, loaders, adds=adds, anywhere=adds)
    elif name in _RENEWING:
        renewed(machine, node.func.value)


def renewed(machine: Machine, place: cst.BaseExpression) -> None:
    root = _root(place)
    if isinstance(root, cst.Name) and root.value in machine.frame.env and _is_whole(place):
        machine.frame.env[root.value] = _without(machine.frame.env[root.value])


def overwritten(machine: Machine, place: cst.BaseExpression, sources: Ordered[Obj | str]) -> None:
    """`noise.normal_()`: of what was in the tensor at `place` only its form is left; sources: of what is in it now."""
    root = _root(place)
    if root is None or not _is_whole(place):
        return
    if isinstance(root, cst.Name):
        known = machine.frame.env.get(root.value)
        if known is not None:
            machine.frame.env[root.value] = _holding(known, sources)
            pooling.named(machine, machine.frame.env, root.value, machine.frame.env[root.value])
        return
    holders = [obj for obj in machine.values.get(root.value, Value()).objs if isinstance(obj, Instance)]
    for obj in holders if len(holders) == 1 else ():
        known = obj.attributes.get(root.attr.value)
        if known is not None:
            machine.keep(obj.attributes, root.attr.value, _holding(known, sources), obj)


def _holding(known: Value, sources: Ordered[Obj | str]) -> Value:
    objs = Ordered(obj for obj in known.objs if not isinstance(obj, Zero))
    return replace(known, objs=objs, sources=forms.emptied(known) | sources)


def stored(machine: Machine, target: cst.Attribute, value: Value, loaders: frozenset[str]) -> Value:
    """`self.mean = 0.9 * self.mean + 0.1 * features.mean(0)`: made from what it was."""
    if value.scale in (Scale.CONST, Scale.SAMPLES, Scale.TURNED) or not of_a_share(value, loaders):
        return value
    parents = machine.frame.module.parents
    statement = parents.get(target)
    if isinstance(statement, cst.AssignTarget):
        statement = parents[statement]
        assert isinstance(statement, cst.Assign)
        if not any(one.deep_equals(target) for one in _attributes(statement.value)):
            return value
    elif not isinstance(statement, cst.AugAssign):
        return value
    dealt = _dealt_by(value, loaders)
    mark = machine.made(Kept, target, dealt, of=dealt)
    mark.settled = True
    return _with(value, mark)


def next_batch(machine: Machine, node: cst.CSTNode) -> None:
    """A loop begins another turn: what was written into, and is still there, is state now, if it draws batches."""
    if not machine.happened["pending"]:
        return
    reads.uncertain()
    if any(event.node is node or any(here.node is node for here in event.here.up()) for event in machine.draws):
        for (_, name), frame in machine.pending.items():
            for mark in _marks(frame.env.get(name)):
                mark.settled = True


def kept_in(value: Value) -> list[Kept]:
    """What the value depends on that earlier batches left behind."""
    return [source for source in value.sources if isinstance(source, Kept) and source.settled]


def left_in(value: Value) -> Ordered[Obj | str]:
    """What of earlier batches, or of this one, was written into it."""
    return Ordered(source for source in value.sources if isinstance(source, _LEFT))


# ---- marks


def _marks(value: Value | None) -> list[Kept]:
    return [source for source in value.sources if isinstance(source, Kept)] if value is not None else []


def _with(value: Value, mark: Obj) -> Value:
    return value.adding([mark])


def _without(value: Value) -> Value:
    kept = Ordered(source for source in value.sources if not isinstance(source, Kept))
    return value.with_sources(kept)


def _is_lasting(value: Value, loaders: frozenset[str]) -> bool:
    """A tensor that nothing of this batch is in; not a list, a dictionary or a module."""
    return not of_a_share(value, loaders) and not any(
        isinstance(obj, (Mapping, Sequence, Instance)) for obj in value.objs
    )


def _holder(around: Frame, name: str) -> Frame | None:
    frame: Frame | None = around
    while frame is not None and name not in frame.env:
        frame = frame.parent
    return frame


def _root(place: cst.BaseExpression) -> cst.Name | cst.Attribute | None:
    """`centers` of `centers.data[i]`, `self.queue` of `self.queue[:, i].mul_(2)`."""
    while True:
        if isinstance(place, cst.Name):
            return place
        if isinstance(place, cst.Attribute):
            if place.attr.value != "data":
                return place
            place = place.value
        elif isinstance(place, cst.Subscript):
            place = place.value
        elif isinstance(place, cst.Call) and isinstance(place.func, cst.Attribute):
            place = place.func.value
        else:
            return None


def _is_whole(place: cst.BaseExpression) -> bool:
    """`noise`, `self.noise.data`, `noise.resize_(n, 4)`, and not some entries of it."""
    while not isinstance(place, cst.Name):
        if isinstance(place, cst.Call) and isinstance(place.func, cst.Attribute):
            name = place.func.attr.value
            if not name.endswith("_") and name not in in_place.WHOLE_VIEWS:
                return False
            place = place.func.value
        elif isinstance(place, cst.Attribute):
            return place.attr.value != "data" or _is_whole(place.value)
        else:
            return False
    return True


def _attributes(node: cst.CSTNode) -> list[cst.Attribute]:
    return [one for one in tree.walk(node) if isinstance(one, cst.Attribute)]
