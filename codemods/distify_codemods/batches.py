"""Where batches are taken from loaders, in which loops they are used, and where passes over loaders begin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import attrgetter

import libcst as cst

from distify_codemods.allocation import CallChain, Obj
from distify_codemods.events import Event, Kind
from distify_codemods.inside import contained
from distify_codemods.interpreter import Run
from distify_codemods.interpreter.iteration import ALL
from distify_codemods.libraries.torch_data import LOADERS
from distify_codemods.objects import External, Passing
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import Share, Whole
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.values import NOTHING, Value

#: The loops that execution gets into, by node and chain of calls.
Entered = dict[tuple[cst.CSTNode, CallChain], Event]


@dataclass(frozen=True)
class BatchLoop:
    """A loop whose turns use one batch each, or one of each loader."""

    event: Event
    loaders: tuple[External, ...]
    trained: tuple[External, ...]  # those whose batches reach a backward pass
    forwards: tuple[Event, ...]  # of trained models
    draws: tuple[Event, ...]  # where batches are taken
    shares: bool = False  # its batches are cut by hand, and shared out
    denied: bool = False  # it has a backward pass, and the user trains on other loaders' batches only

    @property
    def trains(self) -> bool:
        return bool(self.trained) or self.shares or self.denied

    @property
    def node(self) -> cst.For | cst.While:
        assert isinstance(self.event.node, (cst.For, cst.While))
        return self.event.node

    @property
    def passing(self) -> cst.For | None:
        """The loop, if each of its turns gets one batch and it ends when the loader does."""
        node = self.node
        if not isinstance(node, cst.For) or any(draw.node is not node for draw in self.draws):
            return None
        parts = list(contained(self.event.value))
        plain = any(obj in parts for obj in self.loaders)
        odd = any(isinstance(obj, Passing) and (obj.repeats or obj.partial) for obj in parts)
        return node if plain and not odd else None

    @property
    def taking(self) -> Event:
        """Where its batches are taken: by the loop itself, or by the first of the calls in it."""
        return self.event if self.passing is not None or not self.draws else self.draws[0]

    @property
    def alternates(self) -> bool:
        """Several loaders, one or the other at a time (not one of each)."""
        return any(len(draw.value.objs) > 1 for draw in self.draws)

    @property
    def module(self) -> Module:
        return self.event.module


@dataclass(frozen=True)
class Beginning:
    """A place where a pass over loaders begins: a loop over them, `iter(...)`, `yield from …`."""

    event: Event
    loaders: tuple[External, ...]  # one of them

    @property
    def expression(self) -> cst.BaseExpression:
        assert self.event.receiver_node is not None
        return self.event.receiver_node

    @property
    def module(self) -> Module:
        return self.event.module


def loaders_in(value: Value) -> list[External]:
    found = [obj for obj in contained(value) if isinstance(obj, External) and obj.name in LOADERS]
    return list(dict.fromkeys(found))


def loaders_of(sources: Ordered[Obj | str]) -> Ordered[External]:
    """The loaders whose batches a value depends on."""
    return Ordered(source for source in sources if isinstance(source, External) and source.name in LOADERS)


def drawn_from(sources: Ordered[Obj | str]) -> Ordered[External]:
    """The loaders whose batches a value depends on, be it on a rank's share of them or on the whole."""
    whole = Ordered(source.of for source in sources if isinstance(source, Whole) and source.of is not None)
    return loaders_of(sources | whole)


def dealt_by(sources: Ordered[Obj | str]) -> Ordered[Obj]:
    """What deals out the batches that a value depends on: loaders, and shares of batches that are cut by hand."""
    return loaders_of(sources) | [source for source in sources if isinstance(source, Share)]


def beginnings(run: Run) -> list[Beginning]:
    return [Beginning(event, tuple(loaders_in(event.value))) for event in run.by_kind(Kind.PASS)]


def batch_loops(run: Run, backwards: Iterable[Event], forwards: Iterable[Event]) -> list[BatchLoop]:
    """In the order in which they are entered."""
    entered: Entered = {
        (event.node, event.here.frame.context): event
        for event in run.by_kind(Kind.LOOP)
        if isinstance(event.node, (cst.For, cst.While))
    }
    draws: dict[Event, list[Event]] = {}  # by each loop that they happen in
    innermost: dict[Event, list[Event]] = {}
    for draw in run.by_kind(Kind.DRAW):
        for number, loop in enumerate(_around(draw, entered)):
            draws.setdefault(loop, []).append(draw)
            if number == 0 and not draw.name.startswith(ALL):
                innermost.setdefault(loop, []).append(draw)
    trained: dict[Event, list[External]] = {}
    for backward in backwards:
        around, decides = [loop for loop in _around(backward, entered) if loop in draws], deciding(run, backward)
        for loader in drawn_from(backward.receiver.sources):
            taken = innermost if loader in decides else draws
            using = next((one for one in around if any(loader in each.value.objs for each in taken.get(one, ()))), None)
            if using is not None:
                trained.setdefault(using, []).append(loader)

    def is_own(loop: Event) -> Callable[[Event], bool]:
        return lambda event: next((around for around in _around(event, entered) if around in draws), None) is loop

    found = [
        _loop(loop, trained.get(loop, []), innermost.get(loop, []), draws[loop], forwards, is_own(loop))
        for loop in entered.values()
        if loop in innermost or loop in trained
        if loop in trained or not _hands_on(run, loop, innermost[loop], forwards)
    ]
    return [one for one in found if one.trains or one.forwards or one.passing is not None]


def deciding(run: Run, event: Event) -> Ordered[External]:
    """The loaders on whose batches it hangs whether an event happens: `if accuracy < target:`"""
    tests = (here.node.test for here in event.here.up() if here.arm and isinstance(here.node, cst.If))
    return drawn_from(EMPTY.union(*(run.values.get(test, NOTHING).sources for test in tests)))


def _around(event: Event, entered: Entered) -> list[Event]:
    """The loops that an event happens in, innermost first."""
    found = (entered.get((here.node, here.parent_context)) for here in event.loops())
    return [loop for loop in found if loop is not None]


def _loop(
    loop: Event,
    trained: list[External],
    innermost: list[Event],
    draws: list[Event],
    forwards: Iterable[Event],
    own: Callable[[Event], bool],
) -> BatchLoop:
    """`own`: whether an event is in no inner loop over batches."""
    used = [draw for draw in draws if draw in innermost or any(obj in trained for obj in draw.value.objs)]
    loaders = dict.fromkeys(obj for draw in used for obj in draw.value.objs if isinstance(obj, External))
    ordered = tuple(sorted(loaders, key=attrgetter("number")))
    found = BatchLoop(loop, ordered, tuple(one for one in ordered if one in trained), (), tuple(used))
    inner = [one for one in forwards if one.inside(loop)]
    if not found.trains and found.passing is None:
        inner = [one for one in inner if loaders.keys() & _given_to(one) and own(one)]
    return replace(found, forwards=tuple(inner))


def loops_over_shares(
    run: Run, backwards: Iterable[Event], forwards: Iterable[Event], known: Iterable[BatchLoop]
) -> list[BatchLoop]:
    """The innermost loops around the backward passes of batches that are cut by hand.

    Where forward passes alone are shared, of batches from wherever, unless that is in a training loop that is known.
    """
    found: dict[Event, BatchLoop] = {}
    training = [loop.event for loop in known if loop.trains]
    for backward in backwards:
        shares = [one.of if isinstance(one, Whole) else one for one in backward.receiver.sources]
        free = run.trial.shared and not any(backward.inside(loop) for loop in training)
        if free or any(isinstance(source, Share) for source in shares):
            around = [event for event in run.by_kind(Kind.LOOP) if backward.inside(event)]
            for loop in around[-1:]:
                inner = tuple(one for one in forwards if one.inside(loop))
                found.setdefault(loop, BatchLoop(loop, (), (), inner, (), shares=True))
    return list(found.values())


def _given_to(forward: Event) -> set[External]:
    return set().union(*(loaders_of(given.sources) for given in forward.arguments.all()))


def _hands_on(run: Run, loop: Event, draws: list[Event], forwards: Iterable[Event]) -> bool:
    """A loop that does nothing with the batches itself: of a generator, or over one that is used elsewhere."""
    if any(one.inside(loop) for one in forwards):
        return False
    taken = {obj for draw in draws for obj in draw.value.objs}
    return any(taken & event.value.sources and event.inside(loop) for event in run.by_kind(Kind.YIELD))
