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
