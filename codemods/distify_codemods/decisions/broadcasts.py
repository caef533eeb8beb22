"""Where rank 0's weights are sent to all ranks, for models that no wrap does that for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import itemgetter

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.alternatives import made_instead
from distify_codemods.decisions.base import Blocked, Broadcast, Unwrapped, Wrap, made_at, merged
from distify_codemods.decisions.expressions import is_bound_before, texts_of
from distify_codemods.decisions.models import same
from distify_codemods.decisions.names import bound_by
from distify_codemods.decisions.past_the_wrap import parts_that_are_kept, training_forwards
from distify_codemods.decisions.several import reaches_all
from distify_codemods.decisions.touching import touching_of
from distify_codemods.decisions.wrapping import (
    after_last,
    frames_around_training,
    has_name,
    where_it_is_kept,
    with_batchnorm,
)
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.interpreter.frames import Frame
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.values import NOTHING, Value


def decide_broadcasts(facts: Facts, unwrapped: Iterable[Unwrapped]) -> tuple[tuple[Broadcast, ...], list[Blocked]]:
    models = [model for model in facts.models if any(same(model, one.model) for one in unwrapped)]
    normalised = with_batchnorm(facts) if models else set()
    found: list[Broadcast] = []
    blocked: list[Blocked] = []
    for model in models:
        anchor = first_use(facts, model)
        place = next(places_of(facts, model, model, anchor, model in normalised), None)
        optimizer = next((one for one in facts.optimizers if model in one.models), None)
        if place is None and optimizer is not None and model not in normalised:
            by_optimizer = places_of(facts, model, optimizer.obj, anchor, False)
            place = next((replace(one, by_optimizer=True) for one in by_optimizer), None)
        place = place or next(_where_it_is_kept(facts, model, anchor, model in normalised), None)
        if place is None:
            blocked.append(_nowhere(facts, model))
        else:
            found.append(place)
    return (*merged(found), *_anew(facts, models)), blocked


def _where_it_is_kept(facts: Facts, model: Obj, anchor: Event, sync: bool) -> Iterator[Broadcast]:
    """Behind all places where an attribute is given the model, or in the arm that makes it: all that is done to it
    has to be done there."""
    touching = touching_of(facts.with_unused).before(model, anchor)
    last = {here.node for here in touching[-1].here.up()} if touching else set()
    for wrap in where_it_is_kept(facts, model, anchor, touching, sync):
        if wrap.statement in last:
            yield Broadcast(wrap.target, wrap.module, wrap.statement, wrap.after, (model,), sync)


def first_use(facts: Facts, model: Obj) -> Event:
    """What training first does with the model."""
    forwards = training_forwards(facts, model)
    steps = [
        event
        for event in facts.steps
        if any(model in one.models and one.obj in event.receiver.objs for one in facts.optimizers)
        and facts.in_training(event)
    ]
    backwards = [event for event in facts.backwards if facts.in_training(event)]
    return [*forwards, *steps, *backwards, *facts.run.events][0]


def places_of(
    facts: Facts, model: Obj, held: Obj, anchor: Event, sync: bool, others: Ordered[Obj] = EMPTY
) -> Iterator[Broadcast]:
    """As late as it can be, in the outermost function that has an expression for what is held, or for one of others."""
    return (place for _, place in places_in_frames(facts, model, held, anchor, sync, others))


def places_in_frames(
    facts: Facts, model: Obj, held: Obj, anchor: Event, sync: bool, others: Ordered[Obj] = EMPTY
) -> Iterator[tuple[Frame, Broadcast]]:
    touched = facts.with_unused
    touching = touching_of(touched).before(model, anchor)
    if held is not model:
        touching = [event for event in touched.run.events if event.before(anchor) and held in event.value.objs]
    instead = made_instead(facts, model) | others
    unbound = []
    for frame in frames_around_training(facts, anchor):
        texts = {
            (rank, len(text), text, name): what
            for table in _tables(facts, frame, anchor)
            for name, value in table.items()
            if name.isidentifier()
            for rank, text, what in texts_of(name, value, held, 2, instead)
        }
        for (_, _, text, name), what in sorted(texts.items(), key=itemgetter(0)):
            place = after_last(facts, model, frame, text, anchor, touching, sync)
            if place is None or not _is_bound(place, name) or not _is_there_in_all(facts, frame, name, text):
                continue
            if reaches_all(facts, held, frame, place.statement, name, what):
                found = frame, Broadcast(text, place.module, place.statement, place.after, (model,), sync)
                if has_name(frame, name, place.statement, place.after, anchor):
                    yield found
                else:
                    unbound.append(found)
    yield from unbound


def _tables(facts: Facts, frame: Frame, anchor: Event) -> Iterator[dict[str, Value]]:
    """What names hold when an activation ends, and when the loops begin in which training is done."""
    yield {**frame.bound, **frame.env}
    for loop in facts.of_kind(Kind.LOOP):
        if loop.here.frame is frame and anchor.inside(loop):
            yield loop.names


def _is_bound(place: Wrap, name: str) -> bool:
    if place.after and name in bound_by(place.statement):
        return True
    return is_bound_before(place.module, place.statement, name)


def _is_there_in_all(facts: Facts, frame: Frame, name: str, text: str) -> bool:
    """Whether `model.student` is something in each activation of the function, and not in this one alone."""
    attribute = text.removeprefix(f"{name}.").partition(".")[0] if text.startswith(f"{name}.") else ""
    others = {one.here.frame for one in facts.run.events if one.here.frame.node is frame.node} - {frame}
    held = (core(obj) for other in others for obj in {**other.bound, **other.env}.get(name, NOTHING).objs)
    return not attribute.isidentifier() or all(attribute in getattr(obj, "attributes", {}) for obj in held)


def _anew(facts: Facts, models: list[Obj]) -> Iterator[Broadcast]:
    """Parts that a model gets during training: the ranks draw their weights apart by then."""
    for event, holder, found in parts_that_are_kept(facts):
        if own := tuple(model for model in found if model in models):
            statement = event.module.statement(event.node)
            yield Broadcast(tree.code_of(holder), event.module, statement, True, own, False)


def _nowhere(facts: Facts, model: Obj) -> Blocked:
    message = f"`{facts.names.of(model)}` is not wrapped, and no line before training can send its weights to all ranks"
    return Blocked("GRAD01", *made_at(model), message, "give it a variable in the function that trains it")
