"""What the program does, as far as distribution is concerned; each fact with its place and why it is believed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.batches import BatchLoop as BatchLoop
from distify_codemods.batches import Beginning, batch_loops, beginnings, loops_over_shares
from distify_codemods.batches import dealt_by as dealt_by
from distify_codemods.batches import drawn_from as drawn_from
from distify_codemods.batches import loaders_in as loaders_in
from distify_codemods.batches import loaders_of as loaders_of
from distify_codemods.dropped import dropped
from distify_codemods.events import Event, Kind
from distify_codemods.inside import contained, core, to_library
from distify_codemods.interpreter import NOTHING_TRIED, SPARING, Run, Trial, run
from distify_codemods.interpreter.optimizers import optimizer_bases
from distify_codemods.interpreter.text import splits_of
from distify_codemods.interpreter.unused import with_unused
from distify_codemods.libraries import torch_optim
from distify_codemods.libraries.torch_data import LOADERS
from distify_codemods.naming import Names
from distify_codemods.objects import Arguments, External, Instance, Parameters, Passing, Wrapped
from distify_codemods.ordered import Ordered
from distify_codemods.origins import Share
from distify_codemods.parameters import may_be_a_module, may_have_parameters
from distify_codemods.program import Module, Program
from distify_codemods.records import dataclass
from distify_codemods.settled import Settled, is_module, settle
from distify_codemods.updates import updated_by_hand
from distify_codemods.values import NOTHING, Value
from distify_codemods.wholes import Whole


@dataclass(frozen=True)
class Optimizer:
    obj: External | Instance  # of a library's class, or of a local one that derives from it
    made: Event
    models: tuple[Obj, ...]  # whose parameters it was given
    why: str
    unknown: tuple[External, ...] = ()  # what it was given besides, whose parameters cannot be seen
    wholes: tuple[tuple[Obj, ...], ...] = ()  # models that share a part which it trains
    not_models: tuple[Obj, ...] = ()  # of what it trains, or itself: the user says that it is not to be wrapped


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
    settled: Settled  # by the user
    by_hand: dict[Obj, Event] = field(default_factory=dict)  # models that are updated without an optimizer, and where
    wholes: tuple[Whole, ...] = ()  # pieces of which the events are left out here (`wholes.without`)

    @property
    def training_loops(self) -> list[BatchLoop]:
        return [loop for loop in self.loops if loop.trains]

    @property
    def training_turns(self) -> list[Event]:
        """The loops that train; before it is known how batches are cut by hand, those around backward passes."""
        if self.training_loops:
            return [loop.event for loop in self.training_loops]
        around = {loop.node for backward in self.backwards for loop in backward.loops()[:1]}
        return [event for event in self.of_kind(Kind.LOOP) if event.node in around]

    @property
    def evaluation_loops(self) -> list[BatchLoop]:
        return [loop for loop in self.loops if not loop.trains and loop.forwards]

    @cached_property
    def training_loaders(self) -> Ordered[External]:
        trained = Ordered(loader for loop in self.training_loops for loader in loop.trained)
        return trained | self.settled.train_loaders.keys()

    def shares_of_training(self, value: Value) -> list[Obj]:
        """What training is dealt out by, as far as a value depends on it: on one rank it is of a share then."""
        return [one for one in dealt_by(value.sources) if isinstance(one, Share) or one in self.training_loaders]

    def left_alone(self, loader: Obj) -> bool:
        """Whether the user leaves the line alone that makes a loader."""
        return loader.module is not None and loader.site is not None and loader.module.skipped(loader.site) is not None

    @cached_property
    def answers(self) -> dict[Callable[..., Any], Any]:
        """To questions that go through all events, and that several rules ask (`answers.py`)."""
        return {}

    @cached_property
    def names(self) -> Names:
        return Names(self.program, self.run)

    @cached_property
    def with_unused(self) -> Facts:
        """For the rules: with what happens where a constant of the script does not let it come."""
        return replace(self, run=with_unused(self.run))

    def tried(self, **changes: Any) -> Facts:
        """The facts once something else is taken as given, by the fields of `Trial`."""
        return follow(self.program, replace(self.run.trial, **changes))

    def calls(self, *names: str) -> list[Event]:
        return [event for event in self.run.by_kind(Kind.CALL) if event.name in names]

    def of_kind(self, *kinds: Kind) -> list[Event]:
        return self.run.by_kind(*kinds)

    def value(self, node: cst.CSTNode) -> Value:
        return self.run.values.get(node, Value())

    def module_of(self, node: cst.CSTNode) -> Module:
        return next(module for module in self.run.frames if node in module.parents)

    @cached_property
    def loops_with_steps(self) -> list[Event]:
        """Where loops are entered in whose turns there are backward passes, whatever they run over."""
        return [event for event in self.of_kind(Kind.LOOP) if any(one.inside(event) for one in self.backwards)]

    def in_training(self, event: Event) -> bool:
        return any(loop.trains and event.inside(loop.event) for loop in self.loops)

    @cached_property
    def forwards(self) -> list[Event]:
        """The calls of trained models."""
        return [event for event in self.of_kind(Kind.FORWARD) if self.is_of_a_model(event)]

    def is_of_a_model(self, event: Event) -> bool:
        """Whether it is a trained model that something is called of."""
        return any(core(obj) in self.models for obj in event.receiver.objs)

    def made_in_a_model(self, obj: Obj) -> bool:
        """Whether it was made in the course of a forward pass of some module."""
        return not self._forwards.isdisjoint(obj.context)

    def in_a_model(self, event: Event) -> bool:
        """Whether it happens in the course of a forward pass of some module."""
        return not self._forwards.isdisjoint(event.here.frame.context)

    @cached_property
    def _forwards(self) -> frozenset[cst.CSTNode]:
        return frozenset(
            event.node
            for event in self.of_kind(Kind.FORWARD)
            if any(is_module(core(obj)) for obj in event.receiver.objs)
        )

    def outcome(self, branch: cst.If, event: Event) -> bool | None:
        """How a branch around, or in the same activation as, an event is always decided in its context."""
        outcomes = self.run.outcomes.get((branch, event.here.frame.context), set())
        return next(iter(outcomes)) if len(outcomes) == 1 else None

    @property
    def first_step(self) -> int:
        """The number of the first event of training."""
        return min((event.number for event in self.backwards), default=len(self.run.events))


class OverBudget(Exception):
    """It takes more statements than the user allows to see whether sharded data are right."""


def follow(program: Program, trial: Trial = NOTHING_TRIED) -> Facts:
    """What a run of the program tells; each trial is run once. Raises OverBudget where it does not come to its end.

    Where a program is too large to follow each call, what is tried first is a run that follows a few of each kind.
    """
    known = program.followed
    with_wraps = known.get(replace(trial, drop_data_parallel=False))
    if with_wraps is not None and not with_wraps.run.machine.data_parallel:
        return with_wraps  # there is nothing to drop
    if trial not in known:
        seen = run(program, trial)
        if not seen.complete and not (trial.shared or trial in (NOTHING_TRIED, SPARING)):
            raise OverBudget
        too_large = not seen.complete and trial == NOTHING_TRIED
        known[trial] = follow(program, SPARING) if too_large else infer(program, seen)
    return known[trial]


def infer(program: Program, run: Run) -> Facts:
    settled = settle(program, run)
    optimizers = tuple(_optimizers(run, settled))
    trained = [model for optimizer in optimizers for model in optimizer.models]
    by_hand = _by_hand(run, optimizers, settled)
    models = tuple(dict.fromkeys([*trained, *settled.models, *by_hand]))
    backwards = tuple(event for event in run.by_kind(Kind.CALL, Kind.METHOD) if _is_backward(event))
    backwards = backwards or tuple(event for event in run.by_kind(Kind.CALL) if _takes_gradients(event, models))
    known = {optimizer.obj for optimizer in optimizers}
    steps = tuple(event for event in run.by_kind(Kind.METHOD) if not known.isdisjoint(stepping(event)))
    forwards = [event for event in run.by_kind(Kind.FORWARD) if any(core(obj) in models for obj in event.receiver.objs)]
    idle = set() if by_hand else dropped(run, backwards, steps, models, known)
    training = [event for event in backwards if event not in idle]
    over_loaders = _answered(batch_loops(run, training, forwards), settled)
    loops = (*over_loaders, *loops_over_shares(run, backwards, forwards, over_loaders))
    loaders = tuple(_loaders(run))
    begun = tuple(beginnings(run))
    return Facts(program, run, optimizers, models, loaders, loops, begun, backwards, steps, settled, by_hand)


def _answered(loops: list[BatchLoop], settled: Settled) -> list[BatchLoop]:
    """Where the user names the training loaders of a loop, it trains on these and on no others."""
    told = settled.train_loaders
    nodes = {loop.node for loop in loops if told.keys() & set(loop.loaders)}
    return [
        replace(loop, trained=mine, denied=loop.trains and not mine)
        if loop.node in nodes and (loop.alternates or len(loop.loaders) == 1) else loop
        for loop in loops
        for mine in [tuple(loader for loader in loop.loaders if loader in told)]
    ]  # fmt: skip


@dataclass(frozen=True)
class _Forwards:
    """The calls of models and other modules, looked up once."""

    by_node: dict[object, Event]
    called: dict[Obj, list[Event]]  # by what is called
    stored: dict[Obj, list[Event]]  # by what an attribute is given


def _forwards(run: Run) -> _Forwards:
    events = run.by_kind(Kind.FORWARD)
    called = _by_obj((event, event.receiver) for event in events)
    stored = _by_obj((event, event.value) for event in run.by_kind(Kind.STORE))
    return _Forwards({event.node: event for event in events}, called, stored)


def _by_obj(of: Iterable[tuple[Event, Value]]) -> dict[Obj, list[Event]]:
    found: dict[Obj, list[Event]] = {}
    for event, value in of:
        for obj in dict.fromkeys(map(core, value.objs)):
            found.setdefault(obj, []).append(event)
    return found


def _optimizers(run: Run, settled: Settled) -> list[Optimizer]:
    """Whatever is given parameters of a model, or a model that the user names, and is asked to step."""
    stepped = {obj for event in run.by_kind(Kind.METHOD) for obj in stepping(event)}
    added, forwards = _given_later(run), _forwards(run)
    found: dict[Obj, Optimizer] = {}
    for event in run.by_kind(Kind.CALL):
        made = event.value.single()
        if not isinstance(made, (External, Instance)) or made in found:
            continue
        given = _parts_given(event, made, added.get(made, []), forwards)
        named = [obj for obj in given_to(event.arguments) if obj in settled.models] if settled.models else []
        if _is_torchs(event, made) or ((given or named) and made in stepped and isinstance(made, External)):
            wholes = [_wholes(core(part), forwards) for part in given]
            found[made] = _optimizer(event, made, wholes, named, settled)
    return list(found.values())


def stepping(event: Event) -> Iterator[Obj]:
    """What may be an optimizer that takes a step: by its own method, or handed to something else's, as a scaler's."""
    for value in (event.receiver, *event.arguments.positional) if event.name == "step" else ():
        yield from value.objs


def _given_later(run: Run) -> dict[Obj, list[Arguments]]:
    """What objects are given that are made already: by the class that they derive from, or as one more group."""
    added: dict[Obj, list[Arguments]] = {}
    for event in run.by_kind(Kind.METHOD):
        if event.name in ("__init__", torch_optim.ADDS_PARAMETERS):
            for obj in event.receiver.objs:
                added.setdefault(obj, []).append(event.arguments)
    return added


def _optimizer(
    event: Event, made: External | Instance, wholes: list[tuple[Obj, ...]], named: list[Obj], settled: Settled
) -> Optimizer:
    """`wholes`: for each part that it trains the models that this is of. `named`: models by the user's word."""
    models = [next((one for one in whole if one in settled.models), whole[0]) for whole in wholes] + named
    told = tuple(one for one in dict.fromkeys([made, *models]) if one in settled.not_models)
    kept = () if made in told else tuple(one for one in dict.fromkeys(models) if one not in told)
    why = f"its parameters are given to {event.name.removeprefix('local.')} at {event.module.place(event.node)}"
    shared = tuple(dict.fromkeys(whole for whole in wholes if len(whole) > 1))
    return Optimizer(made, event, kept, why, _unknown(event.arguments), shared, told)


def _by_hand(run: Run, optimizers: tuple[Optimizer, ...], settled: Settled) -> dict[Obj, Event]:
    """Models whose gradients the program itself reads, to train them, and which no optimizer trains; and where."""
    found: dict[Obj, Event] = {}
    given = (contained(value) for one in optimizers for value in one.made.arguments.all())
    known = {obj.of for objs in given for obj in objs if isinstance(obj, Parameters)}
    read = {part: event for part, event in updated_by_hand(run).items() if part not in known}
    forwards = _forwards(run)
    for part, event in read.items():
        model = _wholes(core(part), forwards)[0]
        if model not in settled.not_models and all(model not in one.models for one in optimizers):
            found.setdefault(model, event)
    return found


def _is_torchs(event: Event, made: External | Instance) -> bool:
    if isinstance(made, Instance):
        return event.name.startswith("local.") and made.of is not None and bool(optimizer_bases(made.of))
    return torch_optim.is_optimizer(made.name)


def _parts_given(event: Event, made: External | Instance, added: list[Arguments], forwards: _Forwards) -> list[Obj]:
    """Whose parameters an optimizer was given: by its maker, by the class that derives from torch's, later on."""
    values = [value for given in (event.arguments, *added) for value in given.all()]
    if isinstance(made, Instance) and torch_optim.GROUPS in made.attributes:  # of an optimizer that it holds
        values.append(made.attributes[torch_optim.GROUPS])
    parts = [obj.of for value in values for obj in contained(value) if isinstance(obj, Parameters)]
    others = isinstance(made, External) and ".optim." in made.name and not made.name.startswith(torch_optim.OWN)
    if not parts and others:
        parts += [core(obj) for value in event.arguments.all() for obj in value.objs if core(obj) in forwards.called]
    return [part for part in parts if part is not None and may_have_parameters(part)]


def _unknown(given: Arguments) -> tuple[External, ...]:
    """What an optimizer was given that may hold parameters: results of calls that cannot be followed."""
    first = given.get("params", 0)
    objs = contained(first) if first is not None else ()
    return tuple(obj for obj in objs if isinstance(obj, External) and not obj.name.startswith(_KNOWN))


_KNOWN = ("torch.", "builtins.", "numpy.", "argparse.", "itertools.", "math.")


def given_to(given: Arguments, depth: int = 3) -> Iterator[Obj]:
    """What a call was given, also inside of what other calls of libraries returned."""
    for value in given.all():
        for obj in contained(value):
            inner = core(obj)
            yield inner.of if isinstance(inner, Parameters) and inner.of is not None else inner
            if isinstance(inner, External) and inner.arguments is not None and depth:
                yield from given_to(inner.arguments, depth - 1)


def _wholes(part: Obj, forwards: _Forwards) -> tuple[Obj, ...]:
    """The models that a trained module is a part of: those that are called with it, or that it was put into."""
    if isinstance(part, External) and part.whole is not None and not _only_itself_called(part, forwards):
        return _wholes(part.whole, forwards)
    owners: list[Obj] = []
    for event in forwards.called.get(part, ()):
        calls = [forwards.by_node[step] for step in event.here.frame.context if step in forwards.by_node]
        around = _around(calls, part)
        if around == [part]:
            return (part,)
        owners += around if event.grad else []
    if owners:
        return tuple(dict.fromkeys(owners))
    for event in forwards.stored.get(part, ()):
        holders = [core(obj) for obj in event.receiver.objs if isinstance(core(obj), External)]
        if holders:
            return (holders[0],)
    return (part,)


def _around(calls: list[Event], part: Obj) -> list[Obj]:
    """The outermost modules of nested calls, down to the part; objects that are none only pass a call on."""
    found: list[Obj] = []
    for call in calls:
        objs = [core(obj) for obj in call.receiver.objs]
        found += [obj for obj in objs if may_be_a_module(obj)]
        if all(map(may_be_a_module, objs)):
            return found
    return [*found, part]


def _only_itself_called(part: External, forwards: _Forwards) -> bool:
    """`checkpoint["net"]` is a model of its own: what it was taken from is never called."""
    return part in forwards.called and part.whole not in forwards.called


def _is_backward(event: Event) -> bool:
    if event.kind is Kind.CALL and event.name == torch_optim.BACKWARD:
        event.receiver = event.arguments.positional[0] if event.arguments.positional else event.receiver
        return True
    return (
        event.kind is Kind.METHOD
        and event.name == "backward"
        and not any(isinstance(obj, Instance) for obj in event.receiver.objs)
    )


def _takes_gradients(event: Event, models: Collection[Obj]) -> bool:
    """`torch.autograd.grad` by a model's parameters, which is the backward pass where nothing calls `backward()`."""
    if event.name != torch_optim.GRADIENT:
        return False
    inputs = event.arguments.get("inputs", 1) or NOTHING
    if not any(isinstance(obj, Parameters) and obj.of in models for obj in contained(inputs)):
        return False
    event.receiver = event.arguments.get("outputs", 0) or NOTHING
    return True


def _loaders(run: Run) -> list[Loader]:
    return [
        Loader(obj, event)
        for event in run.by_kind(Kind.CALL)
        if event.name in LOADERS or splits_of(event.name)
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
