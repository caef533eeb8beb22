"""Functions of the script that a library calls with which they were left: what they do may happen at any later time.

A run enters them where they are handed over (`model.register_forward_hook(hook)`). Ranks cannot wait for each other in
them: nobody knows how often each of them comes there.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.callables import functions
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import Facts, given_to
from distify_codemods.file_events import reads
from distify_codemods.inside import core
from distify_codemods.interpreter.frames import CALLED
from distify_codemods.libraries.checkpoints import LOAD
from distify_codemods.program import Module
from distify_codemods.rules.base import Context

#: What has called them when it returns.
_AT_ONCE = ("builtins.", "functools.", "itertools.", "numpy.", "pandas.")


def outside(context: Context, event: Event, place: tuple[Module, cst.CSTNode]) -> tuple[Module, cst.CSTNode]:
    """The place, or where what it is in was handed over."""
    seen, found, left = False, place, False
    for here in event.here.up():
        seen = seen or here.node is place[1]
        if here.arm == CALLED and seen and _is_called_by_a_library(context.facts, here):
            left = True
        elif left and not here.arm and isinstance(here.node, (cst.BaseSmallStatement, cst.BaseStatement)):
            found, left = (here.frame.module, here.node), False
    return found


def advise(context: Context) -> None:
    """Says where such a function reads what something says is written anew later."""
    for event in context.facts.of_kind(Kind.CALL, Kind.METHOD) if context.files_written else ():
        if reads_later(context, event) and any(
            event.before(one) and context.names.agree(one, event) for one in context.files_written
        ):
            context.advice(
                "a library calls this at a time of its own: a rank may read the file before rank 0 has written it, "
                "unless `rt.barrier()` follows where it is written", event.module, event.node,
            )  # fmt: skip


def reads_later(context: Context, event: Event) -> bool:
    """Whether a function that was handed over reads a file that is written after that."""
    if not (reads(event) or event.name == LOAD):
        return False
    if not any(here.arm == CALLED and _is_called_by_a_library(context.facts, here) for here in event.here.up()):
        return False
    return any(event.before(one) and context.names.may_be_one(one, event) for one in context.files_written)


def _is_called_by_a_library(facts: Facts, here: Here) -> bool:
    called = next((one for one in reversed(here.frame.context) if isinstance(one, cst.Call)), None)
    return called is not None and any(here.frame.function is one for one in _handed(facts, called))


def _handed(facts: Facts, call: cst.Call) -> Iterator[object]:
    for event in facts.run.at(call):
        if event.kind in (Kind.CALL, Kind.METHOD) and not event.name.startswith(("local.", *_AT_ONCE)):
            for obj in given_to(event.arguments):
                yield from (function for function, _ in functions(core(obj)))
