"""Figures of training that outlive their batch: kept, returned or logged, they are those of the global batch.

A rank computes its loss and its accuracy on its own share. Where such a figure is handed over to what outlives the
turn of the loop (a meter, a list, an attribute, a file), all ranks put theirs together first: means are averaged,
which is right over equal shares, sums and counts are added up, and what has one entry per sample is gathered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import field
from enum import Enum
from functools import cached_property
from itertools import groupby

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.decisions.base import Averaging, Left, Putting
from distify_codemods.decisions.places import Place, Places, places_of, with_what_is_left_early
from distify_codemods.decisions.put_into import put_into, taken_out_of
from distify_codemods.decisions.single_samples import is_one_sample
from distify_codemods.decisions.sinks import Kind, Sink, is_tracked, sinks
from distify_codemods.decisions.written_down import displays, is_read_again, is_written_down
from distify_codemods.facts import Facts, dealt_by
from distify_codemods.libraries import meters, python, torch_tensors
from distify_codemods.objects import Mapping, Sequence
from distify_codemods.one_value import gives_one_number
from distify_codemods.ordered import Ordered
from distify_codemods.origins import Shape, Share, Verdict, Whole
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.scale import Scale
from distify_codemods.values import Value

CODE = "METRIC01"
_HOW = {
    Scale.MEAN: Putting.MEAN,
    Scale.SUM: Putting.SUM,
    Scale.COUNT: Putting.COUNT,
    Scale.SAMPLES: Putting.GATHERED,
}
_NUMBERS = (Scale.MEAN, Scale.SUM, Scale.COUNT)
_ADDED_UP = (Kind.ADDED, Kind.CARRIED, Kind.COUNTED)
_WHY = {
    Putting.MEAN: "kept for the global batch: the mean over the ranks",
    Putting.SUM: "kept for the global batch: the sum over the ranks",
    Putting.COUNT: "kept for the global batch: the samples of all ranks",
    Putting.GATHERED: "kept for the global batch: the entries of all ranks",
}
_MADE_OF_PARTS = (cst.Tuple, cst.List, cst.Dict, cst.FormattedString, cst.BinaryOperation)
#: What may not be evaluated, or not as often on one rank as on another.
_NOT_ALWAYS = (cst.Lambda, cst.BaseComp, cst.IfExp, cst.BooleanOperation, cst.Await, cst.Yield)


class Stage(Enum):
    """In which order figures are put together: what was, need not be again where it goes from there."""

    LOOPS = "in the training loops themselves"
    CALLED = "in functions that they call"
    AROUND = "where their figures come out"


def kept(facts: Facts, stage: Stage, done: Collection[cst.CSTNode]) -> tuple[list[Averaging], list[Left]]:
    """What to put together, and what stays one rank's. `done`: what has been put together already."""
    search = _Search(facts, stage, done)
    for _, together in groupby(sinks(facts) if facts.training_loops else (), lambda sink: sink.node):
        search.look_at(list(together))
    found = [one for one in search.found.values() if not search.stands_by_what_is_left(one)]
    if stage is Stage.CALLED:
        found = search.outermost(found)
    beside = (one for one in search.found.values() if one not in found)
    left = [*search.left, *(Left(one.module, one.node, half=one.how in (Putting.SUM, Putting.COUNT)) for one in beside)]
    return found, list(dict.fromkeys(left))


def not_reached_by_all(facts: Facts, found: Iterable[Averaging]) -> list[cst.CSTNode]:
    """Figures that some ranks would wait for, while another has left the loop or the function before."""
    places = with_what_is_left_early(facts)
    kept = [one for one in found if one.code == CODE]
    return [one.node for one in kept if places.of(one.module, one.node) is Place.UNSURE]


def is_of_one_rank(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether a figure depends on one rank's share of a batch; of what a trial averages, before it does."""
    before = facts.run.machine.before_averaging.get(node)
    return bool(facts.shares_of_training(facts.value(node) if before is None else before))


@dataclass(eq=False)
class _Search:
    facts: Facts
    stage: Stage
    done: Collection[cst.CSTNode]
    found: dict[cst.CSTNode, Averaging] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)
    ones_known: dict[tuple[cst.CSTNode, int], bool] = field(default_factory=dict)  # what is of one rank's share
    mixed: set[cst.CSTNode] = field(default_factory=set)  # functions that put entries together of which some are left

    @cached_property
    def places(self) -> Places:
        return places_of(self.facts)

    @cached_property
    def training(self) -> Ordered[Obj]:
        return Ordered(self.facts.training_loaders)

    def look_at(self, together: list[Sink]) -> None:
        """What one statement hands over: of all samples, or of a rank's own. Means fit with either."""
        found = [one for sink in together for one in self._of(sink)]
        whole = None not in found
        for one in found:
            if one is None:
                first = together[0]
                self.left.append(Left(first.module, first.node, stays=self._stays(first)))
                if first.kind in _ADDED_UP and self.facts.value(first.value).scale not in _NUMBERS:
                    self.mixed.add(first.module.lines_around(first.node))
            elif whole or one.how is Putting.MEAN:
                self.found.setdefault(one.node, one)

    def _stays(self, sink: Sink) -> bool:
        """Whether it is there when the batch is gone; of what is written into tensors, `in_place` tells.

        What a tracker shows beside the means, pictures and histograms as a rule, may be of rank 0's samples.
        """
        if is_tracked(self.facts, sink):
            return False
        targets = tree.assigned(sink.node)
        into = [one.value for one in targets if isinstance(one, cst.Subscript)]
        held = any(isinstance(obj, (Mapping, Sequence)) for one in into for obj in self.facts.value(one).objs)
        if sink.kind is Kind.STORED:
            return held or isinstance(sink.node, cst.Call)
        return sink.kind is not Kind.HANDED and (held or not into)

    def stands_by_what_is_left(self, one: Averaging) -> bool:
        """Entries or counts of all samples beside those of a rank's own would not fit together."""
        return one.how is not Putting.MEAN and one.module.lines_around(one.node) in self.mixed

    def outermost(self, found: list[Averaging]) -> list[Averaging]:
        """Those in functions that are called first: what they hand on may be the others, and would count twice."""
        depths = [self.places.depth(one.module, one.node) for one in found]
        return [one for one, depth in zip(found, depths, strict=True) if depth == min(depths)]

    def _of(self, sink: Sink) -> Iterator[Averaging | None]:
        if not self._is_one_ranks(sink.value) and not (sink.kind is Kind.LOGGED and self._holds_more(sink.value)):
            return
        if self._is_into_a_tally(sink):
            return
        place = self.places.of(sink.module, sink.node)
        if self._stage(sink, place) is not self.stage or not sink.counts(place) or self.places.may_train(sink.node):
            return
        figures = list(self._figures(sink.value, sink.module, sink.own)) if place is not Place.UNSURE else []
        if sink.unseen and not self._are_numbers(sink, figures):
            return
        for module, node in figures:
            how = self._how(module, node, sink)
            parts = how is Putting.GATHERED and any(isinstance(one, Share) for one in self._dealt(node))
            yield None if how is None else Averaging(module, node, _WHY[how], how=how, code=CODE, parts=parts)
        covered = self._is_covered(sink.value, {*sink.own, *(node for _, node in figures)})
        if not covered or (sink.kind is Kind.LOGGED and self._holds_more(sink.value)):
            yield None

    def _is_into_a_tally(self, sink: Sink) -> bool:
        """What a turn fills and goes on with: it may be a part of the loss, with its gradient."""
        targets = tree.assigned(sink.node)
        return any(isinstance(one, cst.Subscript) and one.value in self.facts.run.machine.tallied for one in targets)

    def _are_numbers(self, sink: Sink, figures: list[tuple[Module, cst.BaseExpression]]) -> bool:
        """Whether these are all that is handed on: no loss that training goes back through, nor its batch."""
        covered = self._is_covered(sink.value, {node for _, node in figures})
        return covered and all(self._is_one_number(*one) and self._how(*one, sink) for one in figures)

    def _holds_more(self, node: cst.BaseExpression) -> bool:
        """Whether it is a dictionary or a list, and not seen where all in it was written down: a copy of another."""
        held = [obj for obj in self.facts.value(node).objs if isinstance(obj, (Mapping, Sequence))]
        return any(self._differs(obj.any()) for obj in held if not is_written_down(obj))

    def _stage(self, sink: Sink, place: Place) -> Stage:
        if place is not Place.INSIDE:
            return Stage.AROUND
        return Stage.LOOPS if self.places.is_shallow(sink.module, sink.node) else Stage.CALLED

    def _how(self, module: Module, node: cst.BaseExpression, sink: Sink) -> Putting | None:
        """How the ranks' figures become one; None where this is not known, or not the same in all of its roles."""
        how = _HOW.get(self.facts.value(node).scale)
        if how is Putting.COUNT and self.facts.program.options.per_rank_batch:
            how = Putting.SUM  # the last batches of the script's own samplers may be of unequal sizes
        lonely = self.places.of(module, node) is Place.UNSURE or self.places.may_be_shared_out(node)
        if lonely or (sink.changes and not _is_number(node)):
            return None
        if how is Putting.MEAN:
            return how
        if how is Putting.GATHERED and (self._is_one_number(module, node) or is_one_sample(self.facts, module, node)):
            return None  # that of one sample, or of some: there are no entries to gather
        if how is Putting.GATHERED and sink.kind not in (Kind.ADDED, Kind.HANDED, Kind.CARRIED):
            return None  # pictures, texts: of rank 0's samples
        others = any(one not in self.training and not isinstance(one, Share) for one in self._dealt(node))
        return None if others or self.places.evaluates(node) else how

    def _is_one_number(self, module: Module, node: cst.BaseExpression) -> bool:
        """Whether it gives one, also under a name."""
        if not isinstance(node, cst.Name):
            added = isinstance(node, cst.Call) and any(map(_adds_up, self.facts.value(node.func).objs))
            return added or gives_one_number(node)
        given = [module.parents.get(one) for one in module.flow(node).reaching(node)]
        given = [module.parents.get(one) if isinstance(one, cst.AssignTarget) else one for one in given]
        values = [one.value for one in given if isinstance(one, cst.Assign) and one.value is not node]
        return any(not isinstance(one, cst.Name) and self._is_one_number(module, one) for one in values)

    def _figures(
        self, node: cst.CSTNode, module: Module, own: Collection[cst.CSTNode], seen: int = 0, means: bool = False
    ) -> Iterator[tuple[Module, cst.BaseExpression]]:
        """The largest expressions of a known scale that a figure is made of. `own`: of what was put together before.
        `means`: no other ones."""
        if isinstance(node, cst.BaseComp) and (entry := self._entry(node)) is not None:
            yield from self._figures(entry, module, own, seen, means)
            return
        whole = isinstance(node, cst.IfExp) and self._is_a_mean_on_either_way(node)
        if (isinstance(node, _NOT_ALWAYS) and not whole) or node in self.done or node in own or self._looks_up(node):
            return
        value = self.facts.value(node) if isinstance(node, cst.BaseExpression) else Value()
        if self._is_of_all(value):
            return
        if is_cut(self.facts, node):
            for child in self._parts(node):
                yield from self._figures(child, module, own, seen, means)
            return
        again = value.scale is not Scale.MEAN and any(
            one in own or self._looks_up(one) for one in tree.walk(node)
        )  # would count twice
        if isinstance(node, cst.BaseExpression) and self._is_figure(value) and not again:
            if not means or value.scale is Scale.MEAN:
                yield module, node
            return
        if seen < 3:
            for place in displays(self.facts, node):
                if place is not node:
                    alone = means or is_read_again(self.facts, place)
                    yield from self._figures(place, self.facts.module_of(place), own, seen + 1, alone)
        for child in self._parts(node):
            yield from self._figures(child, module, own, seen, means)

    def _is_a_mean_on_either_way(self, node: cst.IfExp) -> bool:
        """Not where ranks may go different ways: the mean of each rank's best is not the best mean."""
        return self.facts.value(node).scale is Scale.MEAN and not self._differs(self.facts.value(node.test))

    def _looks_up(self, node: cst.CSTNode) -> bool:
        """`sizes.get(len(x), 0)`: of a rank's own, or by a key of its own, where that of all ranks is another one."""
        keys: list[cst.CSTNode] = []
        func = node.func if isinstance(node, cst.Call) else None
        if isinstance(node, cst.Call) and isinstance(func, cst.Attribute) and func.attr.value in python.BY_KEY:
            table, keys = func.value, [one.value for one in node.args[:1]]
        elif isinstance(node, cst.Subscript):
            table, keys = node.value, [*node.slice]
        held = self.facts.value(table).objs if keys else ()
        if not any(isinstance(obj, Mapping) or (_is_list(obj) and obj in put_into(self.facts)) for obj in held):
            return False
        value = self.facts.value(node)
        return (value.scale is not Scale.MEAN and self._differs(value)) or any(map(self._is_one_ranks, keys))

    def _is_covered(self, node: cst.CSTNode, chosen: Collection[cst.CSTNode], seen: int = 0) -> bool:
        """Whether nothing of one rank is left in it once these are put together."""
        if node in chosen or node in self.done or not self._is_one_ranks(node):
            return True
        if isinstance(node, cst.BaseComp) and (entry := self._entry(node)) is not None:
            return self._is_covered(entry, chosen, seen)
        if isinstance(node, _NOT_ALWAYS):
            return False
        if isinstance(node, cst.BaseExpression) and seen < 3:
            made = [one for one in displays(self.facts, node) if one is not node]
            if made and all(self._is_covered(one, chosen, seen + 1) for one in made):
                return True
        parts = [part for part in self._parts(node) if self._is_one_ranks(part)]
        return bool(parts) and all(self._is_covered(part, chosen, seen) for part in parts)

    def _entry(self, node: cst.BaseComp) -> cst.BaseExpression | None:
        """What is made of each entry of a dictionary that has the same keys on all ranks: `value.item()` of
        `{name: value.item() for name, value in losses.items()}`."""
        over, call = node.for_in, node.for_in.iter
        if not isinstance(node, (cst.DictComp, cst.ListComp)) or over.ifs or over.inner_for_in is not None:
            return None
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or call.args:
            return None
        held = self.facts.value(call.func.value)
        known = all(isinstance(obj, Mapping) and obj.rest is None and obj.keys is None for obj in held.objs)
        if call.func.attr.value not in python.ALL_ENTRIES or not held.objs or held.open or not known:
            return None
        puts = [one for obj in held.objs for one in put_into(self.facts).get(obj, ())]
        unsure = any(self.places.of(self.facts.module_of(one), one) is Place.UNSURE for one in puts)
        if unsure or not taken_out_of(self.facts).isdisjoint(held.objs):
            return None
        if isinstance(node, cst.ListComp):
            return node.elt
        return None if self._is_one_ranks(node.key) else node.value

    def _is_figure(self, value: Value) -> bool:
        return value.scale in _HOW and self._differs(value) and not holds_several(value)

    def _is_one_ranks(self, node: cst.CSTNode, seen: int = 0) -> bool:
        """Whether any part of it depends on one rank's share of a batch."""
        key = (node, seen)
        if key not in self.ones_known:
            self.ones_known[key] = self._has_one_ranks(node, seen)
        return self.ones_known[key]

    def _has_one_ranks(self, node: cst.CSTNode, seen: int) -> bool:
        if isinstance(node, cst.Lambda) or node in self.done:
            return False
        if isinstance(node, cst.BaseExpression):
            value = self.facts.value(node)
            if value.scale is Scale.REDUCED or self._is_of_all(value):
                return False  # of all ranks, whatever it is made of
            if not isinstance(node, _MADE_OF_PARTS) and self._differs(value):
                return True
            made = [one for one in displays(self.facts, node) if one is not node] if seen < 3 else []
            if any(self._is_one_ranks(one, seen + 1) for one in made):
                return True
        return any(self._is_one_ranks(part, seen) for part in self._parts(node))

    def _parts(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        if isinstance(node, cst.Call):
            if self.places.may_train(node):
                return  # what it is given is the batch
            if isinstance(node.func, cst.Attribute):
                yield node.func.value
            yield from (argument.value for argument in node.args)
        elif isinstance(node, cst.Attribute):
            yield from () if node.attr.value in torch_tensors.OF_ITSELF else [node.value]
        elif isinstance(node, cst.Subscript) and self._is_at_its_own_places(node):
            return
        elif isinstance(node, cst.CompFor):
            yield from (one for one in tree.children(node) if one is not node.target)
        else:
            yield from tree.children(node)

    def _is_at_its_own_places(self, node: cst.Subscript) -> bool:
        """`out[range(len(y)), y]`: of entries of all ranks, these would be others."""
        return any(self._is_one_ranks(one) for part in node.slice for one in tree.children(part))

    def _dealt(self, node: cst.BaseExpression) -> set[Obj]:
        return set(dealt_by(self.facts.value(node).sources))

    def _is_of_all(self, value: Value) -> bool:
        """`x.size(0)` of a batch of which something is gathered: it is told for all samples there."""
        return any(isinstance(one, Whole) for one in value.sources) and not self._differs(value)

    def _differs(self, value: Value) -> bool:
        return bool(self.facts.shares_of_training(value))


def holds_several(value: Value) -> bool:
    """What has no scale of its own: figures are held in it, or it is an answer about them."""
    return any(isinstance(obj, (Mapping, Shape, Verdict)) or _is_list(obj) for obj in value.objs)


def is_cut(facts: Facts, node: cst.CSTNode) -> bool:
    """`round(loss.item(), 3)`, `(loss > 1).item()`: of the mean, not the mean of what was cut."""
    if not isinstance(node, cst.Call) or facts.value(node).scale is not Scale.MEAN:
        return False
    judged = (one for one in tree.walk(node) if isinstance(one, cst.Comparison))
    if any(facts.value(one).scale in _NUMBERS for one in judged):
        return True
    return any(str(getattr(obj, "name", "")) in meters.CUTTING for obj in facts.value(node.func).objs)


def _is_number(node: cst.BaseExpression) -> bool:
    """What nobody can change in place."""
    if not isinstance(node, cst.Call):
        return False
    name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    return isinstance(name, cst.Name) and name.value in ("item", "float", "int", "len", "tolist", "size")


def _adds_up(function: Obj) -> bool:
    """Python's own sum; torch's leaves the entries that it does not add up."""
    return isinstance(function, Ref) and function.name == python.SUM


def _is_list(obj: Obj) -> bool:
    return isinstance(obj, Sequence) and not obj.per_sample
