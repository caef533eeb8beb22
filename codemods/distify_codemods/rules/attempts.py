"""`try:` whose handler goes on: a rank that fails there leaves out what the others do, and ranks do not meet in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions import concurrent
from distify_codemods.events import Event, Here
from distify_codemods.program import Module
from distify_codemods.rules.base import Context
from distify_codemods.rules.once import is_used_later

#: What ends a run, or is no matter of one rank.
_FOR_ALL = frozenset("KeyboardInterrupt SystemExit ImportError ModuleNotFoundError GeneratorExit".split())
#: What a person can do about a file that several processes write and read, where these cannot wait for each other.
IN_ONE_PIECE = (
    "write it under a name of the process's own (with `os.getpid()` in it) and let `os.replace` put it in place; or "
    "have all such files written before the script is started"
)
_FIRST = "put the `try` under `with rt.main_process_first():`, so that rank 0 is through with it before the others come"


def outside(
    context: Context, event: Event, place: tuple[Module, cst.CSTNode], writes: list[Event]
) -> tuple[Module, cst.CSTNode] | None:
    """The place before an event, or before the attempts that it is in. None: one of these writes is in there, too."""
    for here in _around(event, place):
        if any(holds(here, one) for one in context.facts.backwards):
            break  # ranks meet in there anyhow
        if any(holds(here, one) for one in writes):
            return None
        place = here.frame.module, here.node
    return place


def what_to_do(context: Context, event: Event, otherwise: str = _FIRST) -> str:
    """What a person can do where ranks would have to wait, and cannot; of an attempt also where it is the reading that
    may fail.
    """
    of_loaders = concurrent.in_loaders(context.facts)
    return IN_ONE_PIECE if any(here.frame.node in of_loaders for here in event.here.up()) else otherwise


def beside(context: Context, event: Event, place: tuple[Module, cst.CSTNode], writes: Iterable[Event]) -> list[Event]:
    """Those of the writes that are in one of the attempts that the place is in."""
    around = [here for here in _around(event, place) if not any(holds(here, one) for one in context.facts.backwards)]
    return [one for one in writes if any(holds(here, one) for here in around)]


def _around(event: Event, place: tuple[Module, cst.CSTNode]) -> Iterator[Here]:
    """The attempts that the place is in, up to the event's outermost call."""
    passed = not any(here.node is place[1] and not here.arm for here in event.here.up())
    for here in event.here.up():
        passed = passed or (here.node is place[1] and not here.arm)
        if passed and isinstance(here.node, (cst.Try, cst.TryStar)) and _may_be_left_out(here):
            yield here


def is_in_one(event: Event) -> bool:
    """Whether the script goes on where this fails."""
    return is_within(event.here)


def is_within(place: Here) -> bool:
    """The same of a place."""
    return any(isinstance(here.node, (cst.Try, cst.TryStar)) and _may_be_left_out(here) for here in place.up())


def around(event: Event) -> Iterator[Here]:
    """The attempts whose bodies it is in, the innermost first, up to one that trains."""
    return (
        here for here in event.here.up()
        if isinstance(here.node, (cst.Try, cst.TryStar)) and here.arm == "body" and _may_be_left_out(here)
    )  # fmt: skip


def handled(event: Event) -> list[Here]:
    """The attempts in whose handlers it is, the innermost first."""
    tries = (here for here in event.here.up() if isinstance(here.node, (cst.Try, cst.TryStar)))
    return [here for here in tries if here.arm.startswith("handler")]


def is_in_body(attempt: Here, event: Event) -> bool:
    """Whether it happens in what is attempted, and not where that has failed."""
    return any(
        here.node is attempt.node and here.arm == "body" and here.frame.context == attempt.frame.context
        for here in event.here.up()
    )


def behind(attempt: cst.Try | cst.TryStar, failing: cst.CSTNode) -> list[cst.CSTNode]:
    """The statements of an attempt, and of its handlers, that are come to or left out as one in it fails."""
    body = attempt.body.body
    at = next((n for n, one in enumerate(body) if failing in (one, *tree.walk(one))), len(body))
    blocks = [one.body.body for one in (attempt.orelse, *filter(_goes_on, attempt.handlers)) if one is not None]
    return [*body[at:], *(one for block in blocks for one in block)]


def goes_on_otherwise(module: Module, behind: Sequence[cst.CSTNode]) -> bool:
    """Whether what comes behind an attempt depends on whether these statements of it are come to."""
    return any(is_used_later(module, one) for one in behind) or any(
        isinstance(node, (cst.Return, cst.Break, cst.Continue)) for one in behind for node in tree.walk(one)
    )


def holds(attempt: Here, event: Event) -> bool:
    return any(here.node is attempt.node and here.frame.context == attempt.frame.context for here in event.here.up())


def _may_be_left_out(here: Here) -> bool:
    if here.arm != "body":
        return here.arm.startswith("handler")
    assert isinstance(here.node, (cst.Try, cst.TryStar))
    return any(map(_goes_on, here.node.handlers))


def _goes_on(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> bool:
    return not tree.caught(handler) <= _FOR_ALL and not tree.raises_again(handler)
