"""Forward passes that print or write: it would be of parts of a batch, and once more where a pass is checked."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.allocation import Turn
from distify_codemods.decisions.log_records import DETAILS, log_records
from distify_codemods.decisions.places import places_of
from distify_codemods.decisions.sinks import Kind as Sinks
from distify_codemods.decisions.sinks import sinks
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.program import Module
from distify_codemods.records import dataclass


@dataclass(frozen=True)
class WritingPass:
    """A forward pass, or a hook, and what in it prints or writes."""

    module: Module
    function: cst.FunctionDef | None  # None: there is no line in which it could say so
    event: Event


def writing_passes(facts: Facts) -> list[WritingPass]:
    """Each by its function once."""
    found: dict[cst.CSTNode, WritingPass] = {}
    entered = {event.node for event in facts.of_kind(Kind.FORWARD)}
    for event in _writing(facts):
        inside = [here.frame for here in event.here.up() if not entered.isdisjoint(here.frame.context)]
        calls = {frame: [one for one in frame.context if not isinstance(one, Turn)] for frame in inside}
        frame = next((one for one in inside if calls[one] and calls[one][-1] in entered), None)
        if frame is not None:
            node = frame.node
            plain = isinstance(node, cst.FunctionDef) and isinstance(node.body, cst.IndentedBlock)
            function = node if plain and isinstance(node, cst.FunctionDef) else None
            found.setdefault(node, WritingPass(frame.module, function, event))
    return list(found.values())


def _writing(facts: Facts) -> Iterator[Event]:
    in_models = places_of(facts).in_models
    logged = {sink.node for sink in sinks(facts) if sink.kind is Sinks.LOGGED}
    records = [one for one in log_records(facts) if one.name.rpartition(".")[2] not in DETAILS]
    writes = [event for event in facts.of_kind(Kind.CALL, Kind.METHOD) if event.node in logged]
    for event in (*facts.of_kind(Kind.PRINT), *records, *writes):
        if event.module.function(event.node) in in_models:
            yield event
