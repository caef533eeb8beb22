"""The next turn of a loop that takes batches: what is there of them by then is of earlier ones (see `pooling`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import libcst as cst

from distify_codemods import reads, tree
from distify_codemods.allocation import AT_THE_TOP, Obj, Turn
from distify_codemods.interpreter.pooling import OF_SAMPLES, Pooling, contents, is_dealt, within
from distify_codemods.objects import Instance, Mapping, Sequence
from distify_codemods.origins import Draw, Outlived, Pooled, Share
from distify_codemods.reads import Table
from distify_codemods.values import Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.frames import Frame
    from distify_codemods.interpreter.machine import Machine


def next_turn(machine: Machine, loop: cst.CSTNode) -> None:
    """A loop begins another turn: if it takes batches, what is there of them is of earlier ones."""
    drawn = _drawn(machine, loop)
    if drawn or machine.cutting is not None:
        _grow_old(machine, loop, drawn)


def last_turn(machine: Machine, loop: cst.CSTNode) -> None:
    """A loop has ended: the random numbers of its turns are of earlier batches, for a loop behind it as well."""
    if _drawn(machine, loop):
        _grow_old(machine, loop, set())


def _drawn(machine: Machine, loop: cst.CSTNode) -> set[Obj]:
    """The batches that are taken in its turns."""
    if machine.pooling is None:
        return set()
    machine.happened["draws"]  # is noted
    return {
        obj for event in machine.draws for obj in event.value.objs
        if event.node is loop or any(here.node is loop for here in event.here.up())
    }  # fmt: skip


def _grow_old(machine: Machine, loop: cst.CSTNode, drawn: set[Obj]) -> None:
    if machine.pooling is None:
        return
    reads.uncertain()
    if _Turn(machine, machine.pooling, loop, drawn).begin():
        machine.stores += 1
        machine.traces.add(AT_THE_TOP)
        machine.summaries.clear()


def _ended(machine: Machine, pooling: Pooling) -> list[set[cst.CSTNode]]:
    """What stands in the loops that take batches, of those that execution is in no turn of."""
    running = {here.node for here in machine.here.loops}
    taking = {here.node for event in machine.draws for here in event.here.loops}
    taking.update(event.node for event in machine.draws if isinstance(event.node, (cst.For, cst.While)))
    return [pooling.inside(loop) for loop in taking - running]


def _steps(obj: Obj) -> list[cst.CSTNode | None]:
    """By which calls and loops it came to be made, and where."""
    return [step.loop if isinstance(step, Turn) else step for step in (*obj.context, obj.site)]


class _Turn:
    def __init__(self, machine: Machine, pooling: Pooling, loop: cst.CSTNode, drawn: set[Obj]) -> None:
        self.machine, self.pooling, self.loop, self.drawn = machine, pooling, loop, drawn
        self.body = pooling.inside(loop)
        self.over_which = set(tree.walk(loop.iter)) if isinstance(loop, cst.For) else set()
        self.context = machine.frame.context
        self.others = _ended(machine, pooling)
        self.over: dict[Obj, bool] = {}
        self.holding: dict[Obj, bool] = {}
        self.done: set[Obj] = set()

    def begin(self) -> bool:
        """Whether anything is older now than was known."""
        if not self._takes_samples():
            self._end_others()
            return False
        found = [self._entries(), self._holders(), self._names()]
        return any(found)

    def _takes_samples(self) -> bool:
        """Whether a turn of the loop has samples, or random numbers, of its own: else nothing is older behind it."""
        drawn = any(map(self._is_drawn_here, self.pooling.drawn))
        return bool(self.drawn) or drawn or any(map(self._is_new, self.pooling.shares))

    def _end_others(self) -> None:
        for holder in self.pooling.holders:
            if not self._is_new(holder) and self._is_of_another(holder):
                self.pooling.ended.setdefault(holder, contents(holder))

    def _entries(self) -> bool:
        changed = False
        for place, entry in list(self.pooling.entries.items()):
            if self._is_new(entry.holder):
                continue
            entry.look()
            old = self._aged(entry.whole, entry.mark)
            if old is entry.whole and entry.old is None:
                continue
            before, entry.old = entry.old, old if entry.old is None else join(entry.old, old)
            changed = changed or entry.old != before
            self.pooling.fresh -= {place}
            entry.show(False)
        return changed

    def _holders(self) -> bool:
        changed = False
        for holder, mark in list(self.pooling.holders.items()):
            if not self._is_new(holder):
                if self._is_of_another(holder):
                    self.pooling.ended.setdefault(holder, contents(holder))
                changed = self._in_place(holder, mark) or changed
        return changed

    def _in_place(self, holder: Sequence | Mapping, mark: Pooled) -> bool:
        if isinstance(holder, Mapping):
            before = holder.rest, holder.keys
            holder.rest = holder.rest and self._aged(holder.rest, mark)
            holder.keys = holder.keys and self._aged(holder.keys, mark)
            return before != (holder.rest, holder.keys)
        known = holder.items, holder.element
        holder.items = holder.items and self._all_aged(holder.items, mark)
        holder.element = holder.element and self._aged(holder.element, mark)
        return known != (holder.items, holder.element)

    def _names(self) -> bool:
        tables = [*self.pooling.outer.values(), *(frame.env for frame in self.machine.globals.values())]
        frame: Frame | None = self.machine.frame
        while frame is not None:
            tables.append(frame.env)
            frame = frame.parent
        changed = False
        for table in {id(table): table for table in tables}.values():
            for name, value in list(table.items()):
                mark = self.pooling.names.get((id(table), name))
                if mark is not None:
                    table[name] = self._aged(value, mark)
                    changed = changed or table[name] is not value
        return changed

    # ---- values

    def _aged(self, value: Value, mark: Pooled) -> Value:
        """The same value, when the turn in which it was made is over."""
        objs = [self._copied(obj, mark) for obj in value.objs]
        if any(one is not obj for one, obj in zip(objs, value.objs, strict=True)):
            value = replace(value, objs=value.of(objs).objs)
        if not self._is_of_samples(value):
            return self._outlived(value, mark)
        self.pooling.marked = True
        return value if mark in value.sources else value.adding([mark])

    def _outlived(self, value: Value, mark: Pooled) -> Value:
        """Random numbers of a turn that is over; in a figure of samples they are for the rules about figures."""
        if not self._is_new(mark) or any(map(is_dealt, value.sources)):
            return value
        draws = [one for one in value.sources if isinstance(one, Draw) and self._is_drawn_here(one)]
        site = mark.site or self.loop
        found = [self.machine.mark(Outlived, site, draw, module=mark.module, draw=draw) for draw in draws]
        self.pooling.marked = self.pooling.marked or bool(found)
        return value.adding(found) if any(one not in value.sources for one in found) else value

    def _is_drawn_here(self, draw: Draw) -> bool:
        return self.loop in self.pooling.drawn.get(draw, ())

    def _all_aged(self, values: tuple[Value, ...], mark: Pooled) -> tuple[Value, ...]:
        return tuple(self._aged(value, mark) for value in values)

    def _is_of_samples(self, value: Value) -> bool:
        return value.scale in OF_SAMPLES and any(map(self._is_dealt_here, value.sources))

    def _is_dealt_here(self, source: Obj | str) -> bool:
        return source in self.drawn or (isinstance(source, Share) and self._is_new(source))

    def _is_new(self, obj: Obj) -> bool:
        """Whether each turn makes one of its own."""
        depth = len(self.context)
        if obj in self.pooling.aged or obj.context[:depth] != self.context:
            return False
        step, *inner = _steps(obj)[depth:]
        if step in self.over_which:  # it is made once, but for what a generator makes in turns of its own
            return any(one in body for body in self.others for one in inner)
        return step in self.body

    def _is_gone(self, obj: Obj) -> bool:
        """Whether it was made in a turn that is over, of this loop or of another: each such turn makes its own."""
        return self._is_new(obj) or self._is_of_another(obj)

    def _is_of_another(self, obj: Obj) -> bool:
        """Whether it is of a loop that has ended, or of this one as it was gone through in another call."""
        if obj not in self.over:
            holds = isinstance(obj, (Sequence, Mapping)) and obj not in self.pooling.aged
            self.over[obj] = holds and any(step in body for body in self.others for step in _steps(obj))
        return self.over[obj]

    def _copied(self, obj: Obj, mark: Pooled) -> Obj:
        """What holds samples, and was made in a turn that is over: the next turn's is another."""
        if not isinstance(obj, (Sequence, Mapping, Instance)) or not self._is_gone(obj) or not self._holds(obj):
            return obj
        known = self.pooling.copies.get(obj)
        copy = known or replace(obj, attributes=Table(), number=Obj(None).number)
        if obj in self.done:
            return copy
        self.done.add(obj)
        self.pooling.copies[obj] = copy
        self.pooling.aged.add(copy)
        self._fill(copy, obj, mark, known is None)
        return copy

    def _fill(self, copy: Obj, obj: Obj, mark: Pooled, first: bool) -> None:
        if isinstance(obj, Sequence) and isinstance(copy, Sequence):
            items = obj.items and self._all_aged(obj.items, mark)
            element = obj.element and self._aged(obj.element, mark)
            if not first and copy.items and items and len(copy.items) == len(items):
                items = tuple(join(one, other) for one, other in zip(copy.items, items, strict=True))
            copy.items, copy.element = items, element if first else join(*filter(None, (copy.element, element)))
        elif isinstance(obj, Mapping) and isinstance(copy, Mapping):
            copy.items = Table() if first else copy.items
            self._fill_table(copy.items, obj.items, mark)
            copy.rest = obj.rest and self._aged(obj.rest, mark)
            copy.keys = obj.keys and self._aged(obj.keys, mark)
        else:
            self._fill_table(copy.attributes, obj.attributes, mark)

    def _fill_table(self, table: dict[Any, Value], of: dict[Any, Value], mark: Pooled) -> None:
        for key, value in of.items():
            aged = self._aged(value, mark)
            table[key] = join(table[key], aged) if key in table else aged

    def _holds(self, obj: Obj) -> bool:
        """Whether there are samples in it, in whatever that the turn has made."""
        if obj not in self.holding:
            self.holding[obj] = False  # once around a circle
            self.holding[obj] = any(
                self._is_of_samples(value)
                or any(isinstance(one, Draw) and self._is_drawn_here(one) for one in value.sources)
                or any(self._is_gone(one) and self._holds(one) for one in value.objs)
                for value in within(obj)
            )
        return self.holding[obj]
