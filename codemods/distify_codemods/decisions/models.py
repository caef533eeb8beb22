"""How each trained model's gradients are averaged: by a wrap around it, or, where that is not right, by a line.

A backend that wraps no models leaves them all as they are. For one that does, a wrap is proposed, tried out on the
program, and believed only if every gradient of training goes through it. What no wrap is right for keeps its model as
it is, and its gradients are averaged after the backward pass (`gradients.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.backends import Backend
from distify_codemods.decisions.base import Blocked, Unwrapped, Wrap, made_at, merged
from distify_codemods.decisions.ddp_limits import beyond, leaves_unused
from distify_codemods.decisions.held_by_modules import held_by_modules
from distify_codemods.decisions.past_the_wrap import past_the_wrap, training_forwards
from distify_codemods.decisions.touching import touching_of
from distify_codemods.decisions.trials import NO_MODULES, try_out, with_sums
from distify_codemods.decisions.wrapping import candidates, with_batchnorm
from distify_codemods.events import Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.objects import Wrapped
from distify_codemods.records import dataclass


@dataclass(frozen=True)
class Averagings:
    """What averages the gradients of each trained model, and the facts of the program with all wraps in place."""

    facts: Facts
    wraps: tuple[Wrap, ...]
    unwrapped: tuple[Unwrapped, ...]
    blocked: tuple[Blocked, ...] = ()


def decide_models(facts: Facts, backend: Backend) -> Averagings:
    blocked = [_never_called(facts, model) for model in facts.models if _is_only_named(facts, model)]
    models = [model for model in facts.models if not _is_only_named(facts, model)]
    if not backend.wraps_models:
        unwrapped = tuple(_left_as_it_is(facts, model) for model in models)
        return Averagings(with_sums(try_out(facts, ()), ()), (), unwrapped, tuple(blocked))
    wraps, reasons, seen = _tried_out(facts, models)
    if _together(facts, wraps, reasons):
        wraps = [wrap for wrap in wraps if not _any_of(wrap.models, reasons)]
        seen = try_out(facts, merged(wraps))
    unwrapped = tuple(reasons[model] for model in models if model in reasons)
    unused = {model: wrap.unused for wrap in wraps for model in wrap.models}
    lines = tuple(replace(one, unused=next(filter(None, map(unused.get, one.models)), "")) for one in merged(wraps))
    return Averagings(with_sums(seen, lines), lines, unwrapped, tuple(blocked))


def _tried_out(facts: Facts, models: list[Obj]) -> tuple[list[Wrap], dict[Obj, Unwrapped], Facts]:
    """The wraps that are right, the models for which none is, and the run with those wraps."""
    reasons: dict[Obj, Unwrapped] = {}
    open_ones: dict[Obj, Iterator[Wrap]] = {}
    normalised = with_batchnorm(facts)
    touching = touching_of(facts.with_unused)  # also where a constant does not let it come
    for model in models:
        forwards = training_forwards(facts, model)
        if forwards:
            before = touching.before(model, forwards[0])
            open_ones[model] = candidates(facts, model, forwards[0], before, model in normalised)
        else:
            why = "training never calls the model itself, only parts or methods of it"
            reasons[model] = _left_as_it_is(facts, model, why)
    chosen: dict[Obj, Wrap] = {}
    moved: set[Obj] = set()
    while True:
        trial = {**chosen, **{model: wrap for model, more in open_ones.items() if (wrap := next(more, None))}}
        reasons |= {model: _no_place(facts, model, model in moved) for model in open_ones if model not in trial}
        seen = try_out(facts, merged(trial.values()))
        moved |= {model for model in trial if _moved_later(seen, model)}
        twice, others = _wrapped_twice(seen), _of_no_module(seen)
        right = (
            model for model in trial
            if _all_wrapped(seen, model) and not _moved_later(seen, model) and trial[model].statement not in others
        )  # fmt: skip
        chosen = {model: trial[model] for model in right if not any(same(model, one) for one in twice)}
        open_ones = {model: more for model, more in open_ones.items() if model in trial and model not in chosen}
        if not open_ones:
            break
    traced = try_out(facts, merged(chosen.values()), tracing=True) if chosen else seen
    for passed in (*past_the_wrap(seen), *held_by_modules(seen), *(beyond(traced) if chosen else ())):
        reasons.update((model, replace(passed, model=model)) for model in models if same(model, passed.model))
    return [_told(wrap, traced) for wrap in chosen.values()], reasons, seen


def _told(wrap: Wrap, traced: Facts) -> Wrap:
    """With what DistributedDataParallel has to know of its model."""
    (model,) = wrap.models
    unused = (leaves_unused(traced, one) for one in traced.models if same(one, model))
    return replace(wrap, unused=next(filter(None, unused), ""))


def _together(facts: Facts, wraps: list[Wrap], reasons: dict[Obj, Unwrapped]) -> bool:
    """Models of one optimizer, or wrapped by one statement, go the same way. Whether any wrap is undone."""
    groups = [optimizer.models for optimizer in facts.optimizers] + [wrap.models for wrap in merged(wraps)]
    grows = True
    while grows:
        grows = False
        for group in groups:
            first = next((reasons[model] for model in group if model in reasons), None)
            for model in group if first is not None else ():
                if model not in reasons and first is not None:
                    reasons[model] = replace(first, model=model, why="another model of its optimizer is not wrapped")
                    grows = True
    return any(_any_of(wrap.models, reasons) for wrap in wraps)


def _any_of(models: Iterable[Obj], reasons: dict[Obj, Unwrapped]) -> bool:
    return any(model in reasons for model in models)


def same(one: Obj, other: Obj) -> bool:
    """Whether objects of two runs are the same."""
    return one.site is other.site and one.context == other.context


def _is_only_named(facts: Facts, model: Obj) -> bool:
    """The user names it, and the program does not train it."""
    trained = any(model in optimizer.models for optimizer in facts.optimizers) or model in facts.by_hand
    return not trained and not training_forwards(facts, model)


def _never_called(facts: Facts, model: Obj) -> Blocked:
    message = f"you name `{facts.names.of(model)}`, which is never called in a training loop, as a model"
    return Blocked("MODEL01", *made_at(model), message, "name the model that the training loop calls")


def _left_as_it_is(facts: Facts, model: Obj, why: str = "") -> Unwrapped:
    optimizer = next((one for one in facts.optimizers if model in one.models), None)
    made = optimizer.made if optimizer is not None else facts.backwards[0]
    return Unwrapped(model, made.module, made.node, why)


def _no_place(facts: Facts, model: Obj, moved: bool) -> Unwrapped:
    forward = training_forwards(facts, model)[0]
    why = "it is reached in more than one way, and no single place wraps them all"
    if moved:
        why = "it is first moved after any place where it could be wrapped, and the wrap would not know of that"
    return Unwrapped(model, forward.module, forward.node, why)


def _all_wrapped(facts: Facts, model: Obj) -> bool:
    """Whether each training forward of the model (the same site in this run) goes through the wrap."""
    forwards = [event for one in facts.models if same(one, model) for event in training_forwards(facts, one)]
    return bool(forwards) and all(
        isinstance(obj, Wrapped) and obj.ours
        for event in forwards
        for obj in event.receiver.objs
        if core(obj).site is model.site
    )


def _wrapped_twice(facts: Facts) -> list[Obj]:
    """The models that come wrapped to a line that wraps, which is there for another: each for itself, not once more."""
    made = facts.run.machine.objects.values()
    return [core(one) for one in made if isinstance(one, Wrapped) and isinstance(one.inner, Wrapped)]


def _of_no_module(facts: Facts) -> set[cst.CSTNode | None]:
    """Where a function may come to a line that wraps: `fit(net, lambda x, y: ...)`, and then `fit(whole, whole)`."""
    made = facts.run.machine.objects.values()
    return {one.site for one in made if isinstance(one, Wrapped) and isinstance(one.inner, NO_MODULES)}


def _moved_later(facts: Facts, model: Obj) -> bool:
    """Whether it is first moved or cast in its wrap, whose hooks would stay with the gradients that it had before."""
    moves = [
        obj
        for event in facts.of_kind(Kind.METHOD)
        if event.name in _MOVES
        for obj in event.receiver.objs
        if same(core(obj), model)
    ]
    return bool(moves) and isinstance(moves[0], Wrapped) and moves[0].ours


_MOVES = frozenset("to cuda cpu half double float bfloat16 type to_empty".split())
