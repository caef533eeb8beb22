"""Functions of the script that a library calls with which they were left: what they do may happen at any later time.

A run enters them where they are handed over (`model.register_forward_hook(hook)`). Ranks cannot wait for each other in
them: nobody knows how often each of them comes there. Of what a pool of threads or of processes runs, a rank comes to
the one before another, and the process that it has started is no rank; this also where the script calls the same
function by itself. But where it trains in there, ranks meet in there anyhow, as in the `main` that `app.run` is given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import libcst as cst

from distify_codemods.allocation import CallChain
from distify_codemods.answers import answered_once
from distify_codemods.callables import functions
from distify_codemods.decisions import concurrent
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import Facts, given_to
from distify_codemods.file_events import reads
from distify_codemods.inside import core
from distify_codemods.interpreter.frames import CALLED
from distify_codemods.libraries import effects
from distify_codemods.libraries.checkpoints import LOAD
from distify_codemods.program import Module
from distify_codemods.rules import attempts
from distify_codemods.rules.base import Context

#: What has called them when it returns.
_AT_ONCE = ("builtins.", "functools.", "itertools.", "numpy.", "pandas.")


_Place = tuple[Module, cst.CSTNode]


def outside(
    context: Context, event: Event, place: _Place, below: Collection[cst.CSTNode],
    above: Callable[[cst.CSTNode], bool] = lambda _: False, leaves: Callable[[Here], bool] = lambda _: False,
) -> _Place:  # fmt: skip
    """The place, or above where what it is in was handed over, or called if it also runs beside the script.

    `below`, `above`, `leaves`: as of `Context.above_file_tests`.
    """
    found = _left(context, event, place, lambda here: _is_called_by_a_library(context.facts, here))
    return place if found == place else context.above_file_tests(event, below, above, found, leaves)


def not_beside(context: Context, event: Event, place: _Place, below: Collection[cst.CSTNode]) -> _Place:
    """The place, or above where what it is in was started or called, if that runs beside the script."""
    found = _left(context, event, place, lambda _: False)
    return place if found == place else context.above_file_tests(event, below, start=found)


def _left(context: Context, event: Event, place: _Place, is_to_be_left: Callable[[Here], bool]) -> _Place:
    seen, found, left = False, place, False
    beside = concurrent.beside(context.facts).keys() | concurrent.in_loaders(context.facts)
    trained = _trained_in(context.facts)
    for here in event.here.up():
        seen = seen or here.node is place[1]
        if here.arm == CALLED and seen and (here.frame.node in beside or is_to_be_left(here)):
            left = left or (here.frame.node, here.frame.context) not in trained
        elif left and not here.arm and isinstance(here.node, (cst.BaseSmallStatement, cst.BaseStatement)):
            found, left = (here.frame.module, here.node), False
    return found


@answered_once
def _trained_in(facts: Facts) -> frozenset[tuple[cst.CSTNode, CallChain]]:
    return frozenset((here.frame.node, here.frame.context) for step in facts.backwards for here in step.here.up())


def runs_within(event: Event, place: _Place, others: Iterable[Event]) -> bool:
    """Whether one of the others happens before an event in the course of the statement at its place."""
    ways = {(here.node, here.frame.context) for here in event.here.up() if here.node is place[1] and not here.arm}
    return any(
        one.before(event) and any((here.node, here.frame.context) in ways and not here.arm for here in one.here.up())
        for one in others
    )


def is_written_within(context: Context, event: Event, place: _Place, writes: Iterable[Event]) -> bool:
    """Whether rank 0 alone writes what is read in one statement; says that nobody can wait for it before that."""
    within = runs_within(event, place, (one for one in writes if _is_of_rank_zero(context, one)))
    if within:
        made = event.name in effects.MAKES_FOLDERS
        read, written = ("a folder is made", "removed the old one") if made else ("a file is read", "written it")
        apart = f"{'remove' if made else 'write'} it before that line, or do this behind it, when all of that is done"
        context.needs_you(
            f"{read} in what line {place[0].place(place[1]).line} does, starts or hands over, once rank 0 has "
            f"{written} there: the others cannot wait for that in between",
            event.module, event.node, apart if made else attempts.what_to_do(context, event, apart),
        )  # fmt: skip
    return within


def _is_of_rank_zero(context: Context, write: Event) -> bool:
    """Whether rank 0 alone writes it, under a guard or by what `open` has become; else each rank has its own."""
    changed, call = context.plan(write.module).expressions, write.node
    return context.comes_on_main(write) or (isinstance(call, cst.Call) and (call in changed or call.func in changed))


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
