"""What a script lets run beside it, in threads and processes that it starts by itself."""

from __future__ import annotations

from collections.abc import Iterable

from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.libraries import distributed, python
from distify_codemods.objects import External
from distify_codemods.settled import is_module


def starting(facts: Facts, events: Iterable[Event], but: tuple[str, ...]) -> list[Event]:
    """The calls by which what something of that happens in is started, `but` by these libraries."""
    started = {
        event.node: event for event in facts.of_kind(Kind.CALL, Kind.METHOD)
        for name in (event.name, *(obj.name for obj in event.receiver.objs if isinstance(obj, External)))
        if name.startswith(python.BESIDE) and not name.startswith(but)
    }  # fmt: skip
    steps = dict.fromkeys(step for event in events for step in event.here.frame.context) if started else {}
    return [one for step, one in started.items() if step in steps]


def computing_processes(facts: Facts) -> list[Event]:
    """Those of processes that call or train models, or use a GPU: each rank would start all of them."""
    events = facts.of_kind(Kind.FORWARD, Kind.METHOD)
    return starting(facts, filter(_computes, events), but=(*python.THREADS, distributed.SPAWN))


def _computes(event: Event) -> bool:
    if event.kind is Kind.METHOD:
        return event.name in ("backward", "cuda")
    return any(is_module(core(obj)) for obj in event.receiver.objs)
