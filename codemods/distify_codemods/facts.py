"""What the program does, as far as distribution is concerned; each fact with its place and why it is believed."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from distify_codemods.events import Event, Kind
from distify_codemods.interpreter import Run
from distify_codemods.interpreter.attributes import LOADERS
from distify_codemods.interpreter.machine import Frame
from distify_codemods.program import Module, Program
from distify_codemods.values import (
    Arguments,
    External,
    Instance,
    Obj,
    Parameters,
    Share,
    Value,
    Wrapped,
    contained,
    core,
)


@dataclass(frozen=True)
class Optimizer:
    obj: External
    made: Event
    models: tuple[Obj, ...]  # whose parameters it was given
    why: str


@dataclass(frozen=True)
class Loader:
    obj: External
    made: Event

    @property
    def call(self) -> cst.Call:
        assert isinstance(self.made.node, cst.Call)
        return self.made.node

    @property
    def arguments(self) -> Arguments:
        return self.obj.arguments or Arguments()


@dataclass(frozen=True)
class BatchLoop:
    """A loop over the batches of one or more loaders."""

    event: Event
    loaders: tuple[External, ...]
    trains: bool  # a backward pass of these batches happens inside
    forwards: tuple[Event, ...]  # of trained models

    @property
    def node(self) -> cst.For | cst.While:
        assert isinstance(self.event.node, (cst.For, cst.While))
        return self.event.node

    @property
    def header(self) -> cst.For:
        """A loop `for batch in loader`, which is how loops over loaders are written."""
        assert isinstance(self.event.node, cst.For)
        return self.event.node

    @property
    def module(self) -> Module:
        return self.event.module


@dataclass(frozen=True)
class Facts:
    program: Program
    run: Run
    optimizers: tuple[Optimizer, ...]
    models: tuple[Obj, ...]  # trained ones, in the order of their optimizers
    loaders: tuple[Loader, ...]
    loops: tuple[BatchLoop, ...]
    backwards: tuple[Event, ...]
    steps: tuple[Event, ...]  # of optimizers

    @property
    def training_loops(self) -> list[BatchLoop]:
        return [loop for loop in self.loops if loop.trains]

    @property
    def evaluation_loops(self) -> list[BatchLoop]:
        return [loop for loop in self.loops if not loop.trains and loop.forwards]

    @property
    def training_loaders(self) -> set[External]:
        return {loader for loop in self.training_loops for loader in loop.loaders}

    def calls(self, *names: str) -> list[Event]:
        return [event for event in self.run.events if event.kind is Kind.CALL and event.name in names]

    def of_kind(self, *kinds: Kind) -> list[Event]:
        return [event for event in self.run.events if event.kind in kinds]

    def value(self, node: cst.CSTNode) -> Value:
        return self.run.values.get(node, Value())

    @property
    def first_step(self) -> int:
        """The number of the first event of training."""
        return min((event.number for event in self.backwards), default=len(self.run.events))


def infer(program: Program, run: Run) -> Facts:
    optimizers = tuple(_optimizers(run))
    models = tuple(dict.fromkeys(model for optimizer in optimizers for model in optimizer.models))
    backwards = tuple(event for event in run.events if _is_backward(event))
    known = {optimizer.obj for optimizer in optimizers}
    steps = tuple(
        event for event in run.events
        if event.kind is Kind.METHOD and event.name == "step"
        and any(obj in known for value in (event.receiver, *event.arguments.positional) for obj in value.objs)
    )  # fmt: skip
    forwards = [
        event for event in run.events
        if event.kind is Kind.FORWARD and any(core(obj) in models for obj in event.receiver.objs)
    ]  # fmt: skip
    loops = (*_loops(run, backwards, forwards), *_loops_over_shares(run, backwards, forwards))
    return Facts(program, run, optimizers, models, tuple(_loaders(run)), loops, backwards, steps)


def _optimizers(run: Run) -> list[Optimizer]:
    """Whatever is given parameters of a model and is asked to step."""
    stepped = {
        obj for event in run.events if event.kind is Kind.METHOD and event.name == "step" for obj in event.receiver.objs
    }
    found: dict[Obj, Optimizer] = {}
    for event in run.events:
        made = event.value.single()
        if event.kind is not Kind.CALL or not isinstance(made, External) or made in found:
            continue
        torchs = (
            made.name.startswith("torch.optim.") and "lr_scheduler" not in made.name and "swa_utils" not in made.name
        )
        given = [obj for value in event.arguments.all() for obj in contained(value) if isinstance(obj, Parameters)]
        if torchs or (given and made in stepped):
            models = tuple(dict.fromkeys(_whole(run, core(obj.of)) for obj in given if obj.of is not None))
            why = f"its parameters are given to {made.name} at {event.module.place(event.node)}"
            found[made] = Optimizer(made, event, models, why)
    return list(found.values())


def _whole(run: Run, part: Obj) -> Obj:
    """The model that a trained module is a part of: the one that is called with it, or that it was put into."""
    if isinstance(part, External) and part.whole is not None:
        return _whole(run, part.whole)
    forwards = {event.node: event for event in run.events if event.kind is Kind.FORWARD}
    owners: list[Obj] = []
    for event in forwards.values():
        if any(core(obj) is part for obj in event.receiver.objs):
            calls = [forwards[node] for node in event.here.frame.context if node in forwards]
            if not calls:
                return part
            owners += [core(obj) for obj in calls[0].receiver.objs]
    if owners:
        return owners[0]
    for event in run.events:
        if event.kind is Kind.STORE and any(core(obj) is part for obj in event.value.objs):
            holders = [core(obj) for obj in event.receiver.objs if isinstance(core(obj), External)]
            if holders:
                return holders[0]
    return part


def _is_backward(event: Event) -> bool:
    if event.kind is Kind.CALL and event.name == "torch.autograd.backward":
        event.receiver = event.arguments.positional[0] if event.arguments.positional else event.receiver
        return True
    return (
        event.kind is Kind.METHOD
        and event.name == "backward"
        and not any(isinstance(obj, Instance) for obj in event.receiver.objs)
    )


def _loaders(run: Run) -> list[Loader]:
    return [
        Loader(event.value.single(), event)  # type: ignore[arg-type]
        for event in run.events
        if event.kind is Kind.CALL and event.name in LOADERS and isinstance(event.value.single(), External)
    ]


def loaders_in(value: Value) -> list[External]:
    found = [obj for obj in contained(value) if isinstance(obj, External) and obj.name in LOADERS]
    return list(dict.fromkeys(found))


def loaders_of(sources: frozenset[Obj | str]) -> set[Obj]:
    """What deals out the batches that a value depends on: loaders, and shares of batches that are cut by hand."""
    return {
        source
        for source in sources
        if isinstance(source, Share) or (isinstance(source, External) and source.name in LOADERS)
    }


def _loops(run: Run, backwards: tuple[Event, ...], forwards: list[Event]) -> list[BatchLoop]:
    found = []
    for event in run.events:
        if event.kind is not Kind.LOOP or not isinstance(event.node, cst.For):
            continue
        loaders = tuple(loaders_in(event.value))
        if loaders:
            trains = any(loaders_of(one.receiver.sources) & set(loaders) and one.inside(event) for one in backwards)
            inner = tuple(one for one in forwards if one.inside(event))
            found.append(BatchLoop(event, loaders, trains, inner))
    return found


def _loops_over_shares(run: Run, backwards: tuple[Event, ...], forwards: list[Event]) -> list[BatchLoop]:
    """The innermost loops around the backward passes of batches that are cut by hand."""
    found: dict[tuple[cst.CSTNode, Frame], BatchLoop] = {}
    for backward in backwards:
        if not any(isinstance(source, Share) for source in backward.receiver.sources):
            continue
        inside = [event for event in run.events if event.kind is Kind.LOOP and backward.inside(event)]
        if inside:
            loop = inside[-1]
            inner = tuple(one for one in forwards if one.inside(loop))
            found.setdefault((loop.node, loop.here.frame), BatchLoop(loop, (), True, inner))
    return list(found.values())


def wrapped(value: Value) -> list[Wrapped]:
    """The models in our DistributedDataParallel that a value may be."""
    return [obj for obj in value.objs if isinstance(obj, Wrapped) and obj.ours]
