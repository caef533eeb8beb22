"""Figures of training that stay those of one rank's samples: of the last batch, and what is in others' hands."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import TypeGuard

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref, Turn
from distify_codemods.batches import BatchLoop
from distify_codemods.decisions.base import Averaging, Decisions, Link, Sharding
from distify_codemods.decisions.caught import is_handled
from distify_codemods.decisions.figures import CODE
from distify_codemods.decisions.log_records import shown_lines
from distify_codemods.decisions.names import read_after
from distify_codemods.decisions.places import Place, places_of
from distify_codemods.decisions.shown_alone import alone
from distify_codemods.decisions.sinks import Kind as Sinks
from distify_codemods.decisions.sinks import choosing, sinks
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, dealt_by
from distify_codemods.inside import core, root
from distify_codemods.interpreter.evidence import is_known
from distify_codemods.libraries import effects, in_place, python
from distify_codemods.libraries.progress import BARS
from distify_codemods.naming import brief
from distify_codemods.objects import Bound, External, Function, Instance, Mapping
from distify_codemods.objects import Sequence as Listing
from distify_codemods.origins import Share
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.settled import is_module
from distify_codemods.values import Value

_NO_FIGURES = PER_SAMPLE | {Scale.CONST, Scale.SLOPES, Scale.REDUCED}
#: What a progress bar shows beside it, and what moves it on.
_OF_BARS = frozenset("set_postfix set_postfix_str set_description set_description_str update".split())


@dataclass(frozen=True)
class OwnFigures:
    """`loaders`: those whose batches are shared out over the ranks."""

    facts: Facts
    loaders: Collection[Obj]

    def is_own(self, value: Value) -> bool:
        """Whether a value depends on one rank's share of a batch."""
        return any(one in self.loaders or isinstance(one, Share) for one in dealt_by(value.sources))

    def of_last_batch(self) -> tuple[Module, cst.CSTNode] | None:
        """The first place where a figure is put that stands for the last batch alone, once the loop has ended."""
        for sink in sinks(self.facts):
            last = sink.kind is Sinks.STORED and sink.fresh and self.is_figure(sink.value)
            if last and places_of(self.facts).of(sink.module, sink.node) not in (Place.MODEL, Place.ELSEWHERE):
                return sink.module, sink.node
        set_by_name = (event for event in self.facts.calls(python.SETS_ATTRIBUTE) if self._takes_own(event))
        first = next(set_by_name, None)
        return (first.module, first.node) if first is not None else next(self._names(), None)

    def _names(self) -> Iterator[tuple[Module, cst.CSTNode]]:
        """`last = loss.item()`, which something after the loop reads."""
        for loop in self.facts.training_loops:
            for node in tree.walk(loop.node.body):
                if isinstance(node, cst.Assign) and self.is_figure(node.value):
                    names = {name for target in node.targets for name in tree.target_names(target.target)}
                    if read_after(loop, names):
                        yield loop.module, node

    def in_place(self, told: Collection[cst.CSTNode] = ()) -> list[tuple[Module, cst.CSTNode]]:
        """`matrix[t, p] += 1`, `numpy.add.at(counts, y, 1)`: of what is still there once the loop is over.

        told: what more is not said of: calls, with all that is done in their course.
        """
        return [
            (module, node)
            for loop in self.facts.training_loops
            for module, body in _run_in(self.facts, loop, told)
            for node in tree.walk(body)
            for place, by in self._written_by(node)
            if self._is_of_own(place, by, node, told) and self._outlives(loop, place, body is loop.node.body)
        ]

    def _outlives(self, loop: BatchLoop, place: cst.BaseExpression, in_the_loop: bool) -> bool:
        if in_the_loop:
            read = isinstance(place, cst.Name) and read_after(loop, {place.value})
            return isinstance(place, cst.Attribute) or bool(read)
        written = self.facts.value(place)
        return written.scale not in PER_SAMPLE and any(not is_made_in(loop, obj) for obj in written.objs)

    def _is_of_own(
        self, place: cst.BaseExpression, by: Sequence[cst.CSTNode], node: cst.CSTNode, told: Collection[cst.CSTNode]
    ) -> bool:
        """What is put into lists and dictionaries is seen elsewhere, but not where it is put."""
        objs = self.facts.value(place).objs
        if any(isinstance(obj, Instance) for obj in objs):
            return False
        keys_alone = isinstance(node, cst.Call) and by
        parts = by if keys_alone or any(isinstance(obj, (Listing, Mapping)) for obj in objs) else [node]
        return any(one not in told for part in parts for one in self._own_leaves(part))

    def _own_leaves(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The innermost expressions of a rank's own samples."""
        inside = [leaf for child in tree.children(node) for leaf in self._own_leaves(child)]
        if not inside and self.is_own(self.facts.value(node)):
            yield node
        yield from inside

    def _written_by(self, node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, Sequence[cst.CSTNode]]]:
        """The tensors, arrays and lists that a statement or call writes into, beside others, and where in them."""
        if isinstance(node, (cst.Assign, cst.AugAssign)):
            for target in tree.targets(node):
                by: list[cst.CSTNode] = []
                while isinstance(target, cst.Subscript) or _is_of_a_tensor(target):
                    by += target.slice if isinstance(target, cst.Subscript) else [target]
                    target = target.value
                if by:
                    yield target, by
        elif isinstance(node, cst.Call):
            if isinstance(node.func, cst.Attribute):
                written = holder_of(node.func.value)
                name, some = node.func.attr.value, written is not node.func.value
                of_array = name in in_place.OF_ARRAYS and not self._is_a_container(written)  # `queue.put(x)`
                if (some and name in in_place.OVERWRITING) or name in in_place.METHODS or of_array:
                    yield written, ()
                if name in python.ADDING and (keys := list(choosing(node.func))):
                    yield written, keys
            names = [obj.name for obj in self.facts.value(node.func).objs if isinstance(obj, Ref)]
            into = (holder_of(place) for one in names or [""] for place in in_place.written_by(one, node))
            found = dict.fromkeys(into)
            yield from ((place, ()) for place in found)

    def _is_a_container(self, node: cst.BaseExpression) -> bool:
        return any(isinstance(obj, (Listing, Mapping, External)) for obj in self.facts.value(node).objs)

    def in_others_hands(self) -> list[Event]:
        """What is given such figures for what it does with them, and is not known; each by its name once."""
        found: dict[str, Event] = {}
        for event in self.facts.of_kind(Kind.CALL, Kind.METHOD, Kind.FORWARD):
            if self._is_for_effect(event) and self._takes_own(event) and _is_unknown(event):
                found.setdefault(tree.code_of(event.node.func) if isinstance(event.node, cst.Call) else "", event)
        return list(found.values())

    def on_bars(self) -> Event | None:
        """The first figure that is shown beside a progress bar, or that moves it on."""
        bars = {obj for event in self.facts.calls(*BARS) for obj in event.value.objs}
        shown = (event for event in self.facts.of_kind(Kind.METHOD) if event.name in _OF_BARS)
        return next((event for event in shown if event.receiver.objs & bars and self._takes_own(event)), None)

    def is_figure(self, node: cst.BaseExpression) -> bool:
        value = self.facts.value(node)
        return value.scale not in _NO_FIGURES and self.is_own(value)

    def _takes_own(self, event: Event) -> bool:
        call = event.node
        given = [one.value for one in call.args] if isinstance(call, cst.Call) else []
        inside = (self.facts.value(part) for one in given for part in tree.walk(one))
        return any(map(self.is_own, inside))

    def _is_for_effect(self, event: Event) -> bool:
        return isinstance(event.module.parents.get(event.node), cst.Expr)


def of(decisions: Decisions) -> OwnFigures:
    """Of training whose batches are shared out."""
    loaders = decisions.facts.training_loaders
    shared = [one for one in loaders if decisions.sharding_of(one) is Sharding.TRAINING]
    return OwnFigures(decisions.facts, shared)


def links(decisions: Decisions) -> Iterator[Link]:
    """What is kept, logged or counted of each batch and cannot be put together over the ranks."""
    kept = [(one.module, _statement(one.module, one.node)) for one in decisions.left if one.stays]
    kept = list(dict.fromkeys([*kept, *_written(decisions, [node for _, node in kept])]))
    for module, node in kept:
        yield Link(
            module, node,
            f"`{brief(node)}` keeps or shows what is made of a batch, which would be that of rank 0's samples",
            "means, and what names of the training loop add up, can be put together over the ranks",
        )  # fmt: skip
    yield from _raised(decisions)
    lines = [] if kept else shown_lines(decisions.facts)  # what is kept may be what is shown
    for event, figures in alone(decisions, lines).items():
        if places_of(decisions.facts).of(event.module, event.node) is Place.MODEL:
            continue  # a forward pass has a part of a batch either way
        yield Link(
            event.module, event.node,
            f"`{brief(figures[0])}` is shown, and would be that of rank 0's samples",
            "means, and what names of the training loop add up, can be put together over the ranks",
        )  # fmt: skip


def _raised(decisions: Decisions) -> Iterator[Link]:
    """`raise Diverged(f"loss {loss.item()}")`, where whoever catches that has the figure."""
    facts, own, averaged = decisions.facts, of(decisions), decisions.facts.run.trial.averaged
    for event in facts.of_kind(Kind.LEAVE):
        node = event.node
        if not isinstance(node, cst.Raise) or not facts.in_training(event) or not is_handled(event):
            continue
        parts = [one for one in tree.walk(node) if isinstance(one, cst.BaseExpression) and own.is_figure(one)]
        if any(not averaged & {one, *event.module.enclosing(one)} for one in parts):
            yield Link(
                event.module, node,
                f"`{brief(node)}` hands on a figure of rank 0's samples to where it is caught",
                "means that are given to a name before could be put together over the ranks",
            )  # fmt: skip


def _statement(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    """The line that a figure stands in, where it is no call of its own."""
    if isinstance(node, (cst.Call, cst.BaseSmallStatement)):
        return node
    around = (one for one in module.enclosing(node) if isinstance(one, cst.BaseSmallStatement))
    return next(around, node)


def written(decisions: Decisions) -> list[tuple[Module, cst.CSTNode]]:
    """What is written into something of a rank's own samples, and is not put together before."""
    return _written(decisions, [one.node for one in decisions.left])


def _written(decisions: Decisions, told: Collection[cst.CSTNode]) -> list[tuple[Module, cst.CSTNode]]:
    known = [*told, *(one.node for one in _put_together(decisions))]
    return of(decisions).in_place({part for node in known for part in tree.walk(node)})


def beside_means(decisions: Decisions) -> set[cst.CSTNode]:
    """What stands in one statement with what is put together: the counts by which means are weighed."""
    return {holder for one in _put_together(decisions) for holder in within_the_statement(one.module, one.node)}


def within_the_statement(module: Module, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node, and what it is a part of."""
    yield node
    yield from itertools.takewhile(lambda one: not isinstance(one, cst.BaseStatement), module.enclosing(node))


def _put_together(decisions: Decisions) -> list[Averaging]:
    return [one for one in decisions.averages if one.code == CODE]


def _run_in(facts: Facts, loop: BatchLoop, but: Collection[cst.CSTNode]) -> Iterator[tuple[Module, cst.CSTNode]]:
    """The loop's body, and those of the functions that are called there by their names, each once."""
    left: list[tuple[Module, cst.CSTNode]] = [(loop.module, loop.node.body)]
    seen: set[cst.CSTNode] = set()
    while left:
        module, body = left.pop(0)
        yield module, body
        nodes = (node for node in tree.walk(body) if isinstance(node, cst.Call) and node not in but)
        calls = [facts.value(node.func).objs for node in nodes]
        for obj in (one for objs in calls for one in objs):
            function = obj.function if isinstance(obj, Bound) and not _is_of_a_module(obj) else obj
            node = function.node if isinstance(function, Function) else None
            if node is not None and node not in seen:
                seen.add(node)
                left.append((facts.module_of(node), node.body))


def _is_of_a_module(method: Bound) -> bool:
    """What a model keeps of its batches is looked at where its forward pass is."""
    return method.receiver is not None and is_module(method.receiver)


def holder_of(place: cst.BaseExpression) -> cst.BaseExpression:
    """What has the entries at a place: `rows` of `rows[i:][0]`, `rows.narrow(0, i, 8)` and `rows.mul_(0.9)`."""
    while True:
        if isinstance(place, cst.Subscript):
            place = place.value
            continue
        view = place.func if isinstance(place, cst.Call) else None
        if not isinstance(view, cst.Attribute) or view.attr.value not in {*in_place.VIEWS, *in_place.METHODS}:
            return place
        place = view.value


def _is_of_a_tensor(target: cst.BaseExpression) -> TypeGuard[cst.Attribute]:
    """`mean.data = ...`"""
    return isinstance(target, cst.Attribute) and target.attr.value == "data"


def is_made_in(loop: BatchLoop, obj: Obj) -> bool:
    """Whether it is made in a turn of the loop, and gone with it."""
    steps = [step.loop if isinstance(step, Turn) else step for step in (*obj.context, obj.site)]
    return any(step in loop.module.parents and _is_within(loop, step) for step in steps if step is not None)


def _is_within(loop: BatchLoop, node: cst.CSTNode) -> bool:
    return node is loop.node or loop.node in loop.module.enclosing(node)


def _is_unknown(event: Event) -> bool:
    if event.kind is Kind.CALL:
        names = [] if event.name.startswith("local.") else [event.name]
    else:
        names = [name for obj in event.receiver.objs for name in _names_of(core(obj))]
    return any(not is_known(name) and not effects.is_tracker(name) for name in names)


def _names_of(obj: Obj) -> list[str]:
    obj = root(obj)
    if isinstance(obj, Instance) and obj.of is not None:
        return list(obj.of.libraries)
    return [obj.name] if isinstance(obj, External) else []
