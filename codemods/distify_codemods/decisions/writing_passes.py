"""Forward passes that print or write, which would be of parts of a batch, and once more where a pass is checked; and
those that keep something in some passes only, of which the first, which is checked, tells nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Turn
from distify_codemods.decisions.kept_by_models import kept
from distify_codemods.decisions.log_records import DETAILS, log_records
from distify_codemods.decisions.places import places_of
from distify_codemods.decisions.sinks import Kind as Sinks
from distify_codemods.decisions.sinks import sinks
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.interpreter.frames import Frame
from distify_codemods.program import Module
from distify_codemods.records import dataclass

_OF_THE_MODE = "self.training"


@dataclass(frozen=True)
class WritingPass:
    """A forward pass, or a hook, and what in it prints, writes or keeps something."""

    module: Module
    function: cst.FunctionDef | None  # None: there is no line in which it could say so
    writes: tuple[Module, cst.CSTNode]
    does: str


def writing_passes(facts: Facts) -> list[WritingPass]:
    """Each by its function once."""
    passes = [(_pass_around(facts, event), event.module, event.node, "prints or writes") for event in _writing(facts)]
    entered = _frames_of(facts, {module.function(node) for module, node in kept(facts)})
    for module, node in kept(facts):
        frame = entered.get(module.function(node))
        if frame is not None and (frame.node is not module.function(node) or _is_in_some_passes(module, node)):
            passes.append((frame, module, node, "keeps something in some passes"))
    found: dict[cst.CSTNode, WritingPass] = {}
    for frame, module, node, does in passes:
        if frame is not None:
            plain = isinstance(frame.node, cst.FunctionDef) and isinstance(frame.node.body, cst.IndentedBlock)
            function = frame.node if plain and isinstance(frame.node, cst.FunctionDef) else None
            found.setdefault(frame.node, WritingPass(frame.module, function, (module, node), does))
    return list(found.values())


def _pass_around(facts: Facts, event: Event) -> Frame | None:
    """The forward pass in which something happens: the innermost, as it was called."""
    entered = facts.calls_of_models
    for frame in (here.frame for here in event.here.up()):
        calls = [one for one in frame.context if not isinstance(one, Turn)]
        if calls and calls[-1] in entered:
            return frame
    return None


def _frames_of(facts: Facts, functions: Iterable[cst.CSTNode]) -> dict[cst.CSTNode, Frame]:
    """The forward passes in which functions run."""
    wanted, found = set(functions), dict[cst.CSTNode, Frame]()
    for event in facts.run.events if wanted else ():
        node = event.here.frame.node
        if node in wanted and node not in found and (frame := _pass_around(facts, event)) is not None:
            found[node] = frame
    return found


def _is_in_some_passes(module: Module, node: cst.CSTNode) -> bool:
    around = itertools.takewhile(lambda one: not isinstance(one, cst.FunctionDef), module.enclosing(node))
    return any(isinstance(one, cst.If) and tree.code_of(one.test) != _OF_THE_MODE for one in around)


def _writing(facts: Facts) -> Iterator[Event]:
    in_models = places_of(facts).in_models
    logged = {sink.node for sink in sinks(facts) if sink.kind is Sinks.LOGGED}
    records = [one for one in log_records(facts) if one.name.rpartition(".")[2] not in DETAILS]
    writes = [event for event in facts.of_kind(Kind.CALL, Kind.METHOD) if event.node in logged]
    for event in (*facts.of_kind(Kind.PRINT), *records, *writes):
        if event.module.function(event.node) in in_models:
            yield event
