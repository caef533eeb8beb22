"""Training and evaluation mode of models."""

from __future__ import annotations

from distify_codemods.allocation import Obj
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core


def modes(facts: Facts, models: set[Obj]) -> list[Event]:
    """The calls that put one of the models into a mode."""
    return [
        event
        for event in facts.of_kind(Kind.METHOD)
        if event.name in ("train", "eval") and any(core(obj) in models for obj in event.receiver.objs)
    ]


def trains(event: Event) -> bool | None:
    """The mode that a call sets: `model.train()`, `model.eval()`, `model.train(flag)`; None: it is computed."""
    if event.name == "eval":
        return False
    given = event.arguments.get("mode", 0)
    if given is None:
        return None if event.arguments.star or event.arguments.double_star else True
    known = given.constant()
    return known if isinstance(known, bool) else None


def evaluates_for_good(facts: Facts, model: Obj, first: Event, *holders: Obj) -> bool:
    """Whether it has been put into evaluation mode before its first call, whatever the script decides, and nothing ever
    puts it back. holders: of which it is a part, and that are put into a mode with it."""
    set_ = modes(facts, {model, *holders})
    before = any(event.dominates(first) or _as_it_is_made(facts, event, model) for event in set_)
    return before and all(trains(event) is False for event in set_)


def _as_it_is_made(facts: Facts, event: Event, model: Obj) -> bool:
    """Whether it happens wherever the model was made, as in the constructor of what holds it: on whichever way to its
    calls that was.
    """
    made = next((one for one in facts.of_kind(Kind.CALL) if model in one.value.objs), None)
    return made is not None and made.before(event) and event.here.conditions() <= made.here.conditions()
