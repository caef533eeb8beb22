"""What the program does, as far as distribution is concerned; each fact with its place and why it is believed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import libcst as cst

from distify_codemods.batches import BatchLoop as BatchLoop
from distify_codemods.batches import Beginning, batch_loops, beginnings, loops_over_shares
from distify_codemods.batches import dealt_by as dealt_by
from distify_codemods.batches import loaders_in as loaders_in
from distify_codemods.batches import loaders_of as loaders_of
from distify_codemods.events import Event, Kind
from distify_codemods.interpreter import Run
from distify_codemods.interpreter.attributes import LOADERS
from distify_codemods.interpreter.optimizers import OPTIMIZERS, optimizer_bases
from distify_codemods.interpreter.text import splits_of
from distify_codemods.program import Module, Program
from distify_codemods.values import (
    Arguments,
    External,
    Instance,
    Obj,
    Parameters,
    Passing,
    Value,
    Wrapped,
    contained,
    core,
    to_library,
)


@dataclass(frozen=True)
class Optimizer:
    obj: External | Instance  # of a library's class, or of a local one that derives from it
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
class Facts:
    program: Program
    run: Run
    optimizers: tuple[Optimizer, ...]
    models: tuple[Obj, ...]  # trained ones, in the order of their optimizers
    loaders: tuple[Loader, ...]
    loops: tuple[BatchLoop, ...]
    beginnings: tuple[Beginning, ...]  # of passes over loaders
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
        return {loader for loop in self.training_loops for loader in loop.trained}

    def calls(self, *names: str) -> list[Event]:
        return [event for event in self.run.events if event.kind is Kind.CALL and event.name in names]

    def of_kind(self, *kinds: Kind) -> list[Event]:
        return [event for event in self.run.events if event.kind in kinds]

    def value(self, node: cst.CSTNode) -> Value:
        return self.run.values.get(node, Value())

    def module_of(self, node: cst.CSTNode) -> Module:
        return next(module for module in self.run.frames if node in module.parents)

    def outcome(self, branch: cst.If, event: Event) -> bool | None:
        """How a branch around, or in the same activation as, an event is always decided in its context."""
        outcomes = self.run.outcomes.get((branch, event.here.frame.context), set())
        return next(iter(outcomes)) if len(outcomes) == 1 else None

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
    loops = (*batch_loops(run, backwards, forwards), *loops_over_shares(run, backwards, forwards))
    loaders = tuple(_loaders(run))
    return Facts(program, run, optimizers, models, loaders, loops, tuple(beginnings(run)), backwards, steps)


def _optimizers(run: Run) -> list[Optimizer]:
    """Whatever is given parameters of a model and is asked to step."""
    stepped = {
        obj for event in run.events if event.kind is Kind.METHOD and event.name == "step" for obj in event.receiver.objs
    }
    adding = [one for one in run.events if one.kind is Kind.METHOD and one.name in ("__init__", "add_param_group")]
    found: dict[Obj, Optimizer] = {}
    for event in run.events:
        made = event.value.single()
        if event.kind is not Kind.CALL or not isinstance(made, (External, Instance)) or made in found:
            continue
        given = _parts_given(run, event, made, adding)
        if _is_torchs(event, made) or (given and made in stepped and isinstance(made, External)):
            models = tuple(dict.fromkeys(_whole(run, core(part)) for part in given))
            name = event.name.removeprefix("local.")
            why = f"its parameters are given to {name} at {event.module.place(event.node)}"
            found[made] = Optimizer(made, event, models, why)
    return list(found.values())


def _is_torchs(event: Event, made: External | Instance) -> bool:
    if isinstance(made, Instance):
        return event.name.startswith("local.") and made.of is not None and bool(optimizer_bases(made.of))
    return made.name.startswith(OPTIMIZERS) and "lr_scheduler" not in made.name and "swa_utils" not in made.name


def _parts_given(run: Run, event: Event, made: External | Instance, adding: list[Event]) -> list[Obj]:
    """Whose parameters an optimizer was given: by its maker, by the class that derives from torch's, later on."""
    calls = [event.arguments, *(other.arguments for other in adding if made in other.receiver.objs)]
    parts = [
        obj.of for given in calls for value in given.all() for obj in contained(value) if isinstance(obj, Parameters)
    ]
    if not parts and isinstance(made, External) and ".optim." in made.name and not made.name.startswith(OPTIMIZERS):
        forwarded = {core(obj) for one in run.events if one.kind is Kind.FORWARD for obj in one.receiver.objs}
        parts += [core(obj) for value in event.arguments.all() for obj in value.objs if core(obj) in forwarded]
    return [part for part in parts if part is not None]


def _whole(run: Run, part: Obj) -> Obj:
    """The model that a trained module is a part of: the one that is called with it, or that it was put into."""
    forwards: dict[object, Event] = {event.node: event for event in run.events if event.kind is Kind.FORWARD}
    if isinstance(part, External) and part.whole is not None and not _only_itself_called(part, forwards.values()):
        return _whole(run, part.whole)
    owners: list[Obj] = []
    for event in forwards.values():
        if any(core(obj) is part for obj in event.receiver.objs):
            calls = [forwards[step] for step in event.here.frame.context if step in forwards]
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


def _only_itself_called(part: External, forwards: Iterable[Event]) -> bool:
    """`checkpoint["net"]` is a model of its own: what it was taken from is never called."""
    called = {core(obj) for event in forwards for obj in event.receiver.objs}
    return part in called and part.whole not in called


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
        Loader(obj, event)
        for event in run.events
        if event.kind is Kind.CALL and (event.name in LOADERS or splits_of(event.name))
        for obj in contained(event.value)
        if isinstance(obj, External) and obj.name in LOADERS
    ]


def loaders_iterated(value: Value) -> list[External]:
    """The loaders whose batches iterating gives: not those in a list or dictionary."""
    found: list[External] = []
    for obj in value.objs:
        loader = to_library(obj)
        if isinstance(loader, External) and loader.name in LOADERS:
            found.append(loader)
        elif isinstance(obj, Passing):
            for part in (obj.over, *obj.zipped):
                found += loaders_iterated(part) if part is not None else []
    return list(dict.fromkeys(found))


def wrapped(value: Value) -> list[Wrapped]:
    """The models in our DistributedDataParallel that a value may be."""
    return [obj for obj in value.objs if isinstance(obj, Wrapped) and obj.ours]
