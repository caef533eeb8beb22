"""Losses that relate the samples of a batch: after the last forward pass, all ranks have all of it.

What the models return, and whatever else of the batch is used after them, is gathered over the ranks there, so that
the rest of the step is that of one process, as it is written. The region is found in the text of one function; that
nothing in it was overlooked is found out by running the program with everything gathered: then no loss may depend on
a rank's share other than as a mean, and nothing may meet both a share and a whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.decisions import meetings, regions
from distify_codemods.decisions.base import Joining
from distify_codemods.decisions.regions import Impossible, Region
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, dealt_by
from distify_codemods.inside import core
from distify_codemods.interpreter import Gathering, Machine
from distify_codemods.interpreter.state import kept_in
from distify_codemods.interpreter.whole import of_all_ranks
from distify_codemods.libraries import torch_optim
from distify_codemods.libraries.torch_data import LOADERS
from distify_codemods.origins import Choice, Share
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import Value

#: Losses that gathering makes right. A mean is right without, a sum is rescaled.
_WRONG = frozenset([Scale.COUPLED, Scale.UNKNOWN])


@dataclass(eq=False)
class _Seen:
    """What a trial run saw where something is gathered."""

    elsewhere: list[cst.CSTNode] = field(default_factory=list)  # where it is no batch of training


def decide_gatherings(facts: Facts) -> tuple[Facts, tuple[Joining, ...], dict[cst.CSTNode, str]]:
    """The facts of a program whose coupled losses see whole batches; or, by backward pass, why they cannot."""
    wrong = [event for event in facts.backwards if _is_wrong(facts, event)]
    if not wrong:
        return facts, (), {}
    snapshots: dict[cst.CSTNode, dict[str, Value]] = {}
    looks = tuple(((node, True), _look(node, snapshots)) for node in _around_forwards(facts))
    seen = _run(facts, Gathering(hooks=looks))
    why: dict[cst.CSTNode, str] = {}
    for around in (False, True):
        try:
            found = _regions(seen, wrong, around)
            trial = _try_out(seen, found, snapshots)
            return trial, _joinings(found), {}
        except Impossible as problem:
            why = why or {event.node: problem.why for event in wrong}
    return facts, (), why


def _around_forwards(facts: Facts) -> set[cst.CSTNode]:
    """The statements that a model may be called in last, before a backward pass."""
    nodes = {event.node for event in facts.forwards}
    outermost = (one for one in facts.of_kind(Kind.FORWARD) if one.node in nodes)
    return {here.node for event in outermost if nodes.isdisjoint(event.here.frame.context) for here in event.here.up()}


def _is_wrong(facts: Facts, event: Event) -> bool:
    dealt = [one for one in dealt_by(event.receiver.sources) if not facts.left_alone(one)]
    wrong = event.receiver.scale in _WRONG or bool(kept_in(event.receiver)) or _is_chosen(event.receiver)
    return bool(dealt) and wrong


def _is_chosen(loss: Value) -> bool:
    """Whether each rank chooses by its own samples which loss it has, by more than a mean (see `agreement`)."""
    return any(isinstance(source, Choice) and source.by is not Scale.MEAN for source in loss.sources)


def _run(facts: Facts, gathering: Gathering) -> Facts:
    return facts.tried(drop_data_parallel=True, gathering=gathering)


def _regions(facts: Facts, wrong: list[Event], around: bool) -> list[Region]:
    found: list[Region] = []
    for event in wrong:
        backward = next(one for one in facts.backwards if _same(one, event))
        for last in regions.last_forwards(facts, backward):
            region = regions.region_of(facts, backward, last, around)
            if all(one.statement is not region.statement for one in found):
                found.append(region)
    return found


def _same(one: Event, other: Event) -> bool:
    return one.node is other.node and one.here.frame.context == other.here.frame.context


# ---- trying out


def _try_out(facts: Facts, found: list[Region], snapshots: dict[cst.CSTNode, dict[str, Value]]) -> Facts:
    """Raises Impossible where the gathered values do not make every loss right. `snapshots`: names after statements."""
    saw = _Seen()
    for region in found:
        if region.statement not in snapshots:
            raise Impossible("what the models are called for shows only where all of the batch is there")
        regions.fill(facts, region, snapshots[region.statement])
    hooks = tuple(
        ((region.statement, after), _bind(region, names, saw)) for region in found for after, names in _names(region)
    )
    values = frozenset(node for region in found for node in (*region.values, *region.counts))
    trial = _run(facts, Gathering(values, hooks))
    _check(trial, found, saw)
    return trial


def _look(statement: cst.CSTNode, snapshots: dict[cst.CSTNode, dict[str, Value]]) -> Callable[[Machine], None]:
    def look(machine: Machine) -> None:
        snapshots[statement] = dict(machine.frame.env)

    return look


def _names(region: Region) -> list[tuple[bool, list[str]]]:
    """The names that are given other values before the statement, and after it."""
    computed = bool(region.values)
    before = [*region.before, *(region.numbers if computed else ())]
    after = [*region.after, *(() if computed else region.numbers)]
    return [(when, names) for when, names in ((False, before), (True, after)) if names]


def _bind(region: Region, names: list[str], saw: _Seen) -> Callable[[Machine], None]:
    def bind(machine: Machine) -> None:
        for name in names:
            value = machine.lookup(name)
            if not regions.is_shared(value):
                saw.elsewhere.append(region.statement)
            machine.bind(name, of_all_ranks(machine, value, region.statement, LOADERS))

    return bind


def _check(trial: Facts, found: list[Region], saw: _Seen) -> None:
    why = next(_objections(trial, found, saw), "")
    if why:
        raise Impossible(why)


def _objections(trial: Facts, found: list[Region], saw: _Seen) -> Iterator[str]:
    if saw.elsewhere:
        yield "the code between the forward and the backward pass also runs on other data than training's"
    for event in trial.backwards:
        if kept_in(event.receiver):
            yield "what is kept of a batch is written where only a rank's share is seen"
        if _is_wrong(trial, event):
            yield "it still depends on one rank's share then"
    if any(event.grad and meetings.is_whole(event.value) for event in trial.of_kind(Kind.REDUCED)):
        yield "what is gathered would be summed over the ranks once more"
    meeting = meetings.first(trial)
    if meeting:
        yield f"{meeting} a rank's share meets the whole batch"
    yield from _of_gradients(trial)
    forwards = [one for region in found for one in region.forwards]
    models = {_key(obj) for one in forwards for obj in one.receiver.objs}
    if any(_takes_the_whole(event, models) for event in trial.of_kind(Kind.FORWARD)):
        yield "the model is called again with what is gathered"
    if _serves_evaluation(trial, found):
        yield "the function that computes it serves the evaluation, too"


def _serves_evaluation(trial: Facts, found: list[Region]) -> bool:
    encoders, functions = {one.node for region in found for one in region.forwards}, {one.function for one in found}
    again = (one for node in encoders for one in trial.run.at(node) if one.here.frame.node in functions)
    return any(not one.grad or not trial.in_training(one) for one in again)


def _of_gradients(trial: Facts) -> Iterator[str]:
    """Those that are taken by samples: of them, what is gathered holds copies."""
    taken = (event.arguments.get("inputs", 1) for event in trial.calls(torch_optim.GRADIENT))
    if any(inputs is not None and meetings.is_whole(inputs) for inputs in taken):
        yield "a gradient is taken by samples, of which what is gathered is a copy"
    if any(_is_by_samples(trial, event) for event in trial.of_kind(Kind.GRADIENT, Kind.ATTRIBUTE)):
        yield "gradients by the samples themselves are taken"


def _takes_the_whole(event: Event, models: set[tuple[object, object]]) -> bool:
    again = event.grad and any(_key(obj) in models for obj in event.receiver.objs)
    return again and any(meetings.is_whole(one) for one in event.arguments.all())


def _key(obj: Obj) -> tuple[object, object]:
    """What an object has in common in two runs."""
    return core(obj).site, core(obj).context


def _is_by_samples(trial: Facts, event: Event) -> bool:
    """The gradient of a whole batch's loss by one rank's samples comes back once from each rank."""
    if event.kind is Kind.ATTRIBUTE:
        by = event.receiver if event.name == "grad" else Value()
        return meetings.is_whole(by) or bool(by.scale in PER_SAMPLE and trial.shares_of_training(by))
    given = event.arguments.get("inputs", 1)
    parts = [given, *regions.parts_of(given)] if given else []
    return meetings.is_whole(event.value) and any(
        meetings.is_whole(one) or trial.shares_of_training(one) for one in parts
    )


# ---- as data


def _joinings(found: list[Region]) -> tuple[Joining, ...]:
    joinings = []
    for region in found:
        common = (region.module, region.statement)
        dealt = dealt_by(region.backward.receiver.sources)
        joinings.append(
            Joining(
                *common,
                before=tuple((name, region.layouts[name]) for name in region.before),
                after=tuple((name, region.layouts[name]) for name in region.after),
                values=tuple((node, region.layouts[node]) for node in region.values),
                numbers=tuple(region.numbers),
                counts=tuple(region.counts),
                parts=any(isinstance(one, Share) for one in dealt),
                unseen=region.backward.receiver.scale is Scale.UNKNOWN,
                dealt_at=frozenset(site for one in dealt if (site := core(one).site) is not None),
            )
        )
    return tuple(joinings)
