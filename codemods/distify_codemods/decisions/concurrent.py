"""What a script lets run beside it, in threads and processes that it starts by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.answers import answered_once
from distify_codemods.callables import called, methods
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, given_to
from distify_codemods.inside import core
from distify_codemods.libraries import distributed, python
from distify_codemods.named import functions_named
from distify_codemods.objects import External, Instance
from distify_codemods.settled import is_module
from distify_codemods.unfollowed import called_by_libraries

_FUNCTIONS = (cst.FunctionDef, cst.Lambda)


@answered_once
def beside(facts: Facts) -> dict[cst.CSTNode, Event]:
    """The functions that run beside the script, each with what starts it; but where that trains.

    Ranks cannot meet in them: threads come in any order, and on each rank in another, and a process that a rank has
    started is no rank. Who trains in a thread has one that goes its way as the script would.
    """
    trained = {step for event in (*facts.backwards, *facts.forwards) for step in event.here.frame.context}
    found: dict[cst.CSTNode, Event] = {}
    starts: dict[object, Event] = {one.node: one for one in _starts(facts) if one.node not in trained}
    frames = dict.fromkeys(here.frame for event in facts.run.events if starts for here in event.here.up())
    for frame in frames:
        start = next((starts[step] for step in frame.context if step in starts), None)
        if start is not None and isinstance(frame.node, _FUNCTIONS):
            found.setdefault(frame.node, start)
    queue = [(node, start) for start in starts.values() for node in called(_handed(facts, start))]
    while queue:
        node, start = queue.pop()
        if found.setdefault(node, start) is start:
            calls = [one for one in tree.walk(node) if isinstance(one, cst.Call)]
            queue += [(one, start) for call in calls for one in _called_by(facts, call) if one not in found]
    return found


@answered_once
def in_loaders(facts: Facts) -> frozenset[cst.CSTNode]:
    """The functions that loaders call as they are asked for samples, perhaps in processes of their own.

    Ranks cannot meet in them: each has other samples, and a process that a loader has started is no rank.
    """
    handed = (obj for loader in facts.loaders for obj in given_to(loader.made.arguments))
    queue: list[cst.CSTNode] = [one.node for obj in handed for one in called_by_libraries(obj) if one.node is not None]
    found: set[cst.CSTNode] = set()
    while queue:
        node = queue.pop()
        if node not in found:
            found.add(node)
            calls = [one for one in tree.walk(node) if isinstance(one, cst.Call)]
            queue += [one for call in calls for one in _called_by(facts, call)]
    return frozenset(found)


def _called_by(facts: Facts, call: cst.Call) -> Iterator[cst.CSTNode]:
    """What a call runs; in what was not followed, the functions of its name."""
    func = call.func
    if func in facts.run.values:
        yield from called(facts.value(func).objs)
    elif isinstance(func, cst.Name):
        yield from functions_named(facts, func.value)
    elif isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.value.value == "self":
        yield from functions_named(facts, func.attr.value)


def _handed(facts: Facts, start: Event) -> Iterator[Obj]:
    """What is started: what was handed over, or what a class has put in the place of a thread's or process's `run`."""
    yield from given_to(start.arguments)
    made = {one.of for one in start.value.objs if isinstance(one, Instance)}
    yield from (function for cls in made if cls is not None for function in methods(cls, "run"))


def _starts(facts: Facts) -> Iterator[Event]:
    for event in facts.of_kind(Kind.CALL, Kind.METHOD):
        names = (event.name, *(obj.name for obj in event.receiver.objs if isinstance(obj, External)))
        made = (obj.of for obj in event.value.objs if isinstance(obj, Instance) and event.kind is Kind.CALL)
        below = (name for cls in made if cls is not None for one in cls.order for name in one.libraries)
        if any(name.startswith(python.BESIDE) for name in (*names, *below)):
            yield event


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
