"""Where rank 0 waits for the others to have read a file, before it is written anew."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import half_done
from distify_codemods.decisions.outside import is_of_a_data_set
from distify_codemods.events import Event, Here, Kind
from distify_codemods.file_events import opens_what_it_is_given, reads
from distify_codemods.file_names import Names
from distify_codemods.libraries import checkpoints, effects
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.rules import attempts, barriers, handed_over, together, unequal, workers
from distify_codemods.rules.barriers import Conditions
from distify_codemods.rules.base import Context, ways_to


@dataclass(frozen=True)
class _Spot:
    """Something that happens, with what it is in: looked up once."""

    event: Event
    loops: frozenset[cst.CSTNode]
    conditions: Conditions
    around: frozenset[cst.CSTNode] = frozenset()  # the statements that it is part of, up through the calls
    place: cst.CSTNode | None = None  # of a barrier above the event
    read_in_workers: frozenset[Event] | None = None  # what writes a file that a pass over a loader reads


def run(context: Context, written: list[Event], names: Names) -> bool:
    """Whether a file is written that ranks may still be reading."""
    reading = [
        _spot(event) for event in context.facts.of_kind(Kind.CALL, Kind.METHOD) if _is_read_by_all(context, event)
    ]
    reading += _read_in_passes(context, written)
    steps = [_spot(event) for event in context.facts.backwards] if reading else []
    found = False
    for event in written if reading else ():
        # what makes folders: they are there already, or are no files that could have been read
        nobody = event.unused or context.takes_turns(event) or _is_of_some_ranks(context, event)
        if event.name in effects.ONLY_FOLDERS or nobody:
            continue
        write = _spot(event)
        meetings = [*steps, *(_Spot(one.event, one.loops, one.conditions, place=one.place) for one in context.barriers)]
        read = [
            one.event for one in reading
            if _may_be_read(one, write, names) and not any(_is_between(met, one, write) for met in meetings)
            and not context.either.excludes(one.event, event)
        ]  # fmt: skip
        if read:
            found = True
            _wait(context, event, read)
    return found


def _spot(event: Event, read_in_workers: frozenset[Event] | None = None) -> _Spot:
    around = frozenset(here.node for here in event.here.up())
    found = frozenset(event.turns)
    return _Spot(event, found, event.here.conditions(), around, read_in_workers=read_in_workers)


def _read_in_passes(context: Context, written: list[Event]) -> Iterator[_Spot]:
    """Passes over loaders whose data sets read what the run writes anew: other ranks' workers may be at it still."""
    for begins in context.facts.of_kind(Kind.PASS):
        later = [one for one in written if begins.before(one) or not begins.turns.isdisjoint(one.turns)]
        if later and (about := workers.written_for(context, begins)):
            yield _spot(begins, about)


def _is_read_by_all(context: Context, event: Event) -> bool:
    if not reads(event) and not opens_what_it_is_given(event) and event.name != checkpoints.LOAD:
        return False
    return not _is_of_a_data_set(context, event) and not context.is_on_main(event.module, event.node)


def _is_of_some_ranks(context: Context, event: Event) -> bool:
    """Whether a test of the script's own lets some ranks come, or loaders call it: there is nobody to wait for."""
    tests = [here.node.test for here in event.here.up() if here.arm and isinstance(here.node, (cst.If, cst.While))]
    by_rank = any(half_done.asks_for_rank(context.facts, test) for test in tests)
    return by_rank or _is_of_a_data_set(context, event)


def _is_of_a_data_set(context: Context, event: Event) -> bool:
    return any(is_of_a_data_set(context.facts, here) for here in event.here.up())


def _may_be_read(read: _Spot, write: _Spot, names: Names) -> bool:
    one, other = read.event, write.event
    if one is other or not (one.before(other) or read.loops & write.loops):
        return False
    if read.read_in_workers is None and not names.may_be_one(other, one):
        return False
    return names.agree(other, one) if read.read_in_workers is None else other in read.read_in_workers


def _is_between(met: _Spot, read: _Spot, write: _Spot) -> bool:
    """Whether ranks always meet between a reading and the next writing, be that in the next turn of a loop."""
    common = read.loops & write.loops
    if not common <= met.loops or met.place in read.around:
        return False
    behind = read.event.before(met.event)
    ahead = met.event.before(write.event)
    if read.event.before(write.event):
        return behind and ahead and met.conditions <= write.conditions
    return (behind and met.conditions <= read.conditions) or (ahead and met.conditions <= write.conditions)


def _wait(context: Context, write: Event, read: list[Event]) -> None:
    if not context.editable(write.module, write.node, "a file is written anew"):
        return
    own = _place(context, write, read)
    above = handed_over.not_beside(context, write, own, ways_to(one for one in read if one.before(write)))
    place = attempts.outside(context, write, above, read)
    if above != own and handed_over.runs_within(write, above, read):
        return context.needs_you(
            f"a file is written anew in what line {above[0].place(above[1]).line} starts, which reads it, too: rank 0 "
            "cannot wait in there for the others to have read it",
            write.module, write.node, "write it behind that line, when all of that is done",
        )  # fmt: skip
    if any(_is_within_one_line(write, one) for one in read):
        return context.needs_you(
            "a file is written anew in the statement that reads it: rank 0 may empty it while others still read",
            write.module, write.node, "read it in a statement of its own before",
        )  # fmt: skip
    if place is None and together.read(context, write, above, read):
        place = above
    if place is None:
        return context.needs_you(
            "a file is written in the `try` that reads it: if that fails on one rank alone, rank 0 would wait for it",
            write.module, write.node, attempts.what_to_do(context, write),
        )  # fmt: skip
    module, node = place
    barrier = barriers.before(write, module, node)
    if unequal.in_unequal_turns(context, barrier.loops):
        return context.needs_you(
            "rank 0 writes a file that others may be reading, in a loop that ranks run through in their own time",
            write.module, write.node, "write it before or after the loop, after `rt.barrier()`",
        )  # fmt: skip
    context.barriers.append(barrier)
    reason = "every rank has read the file before rank 0 writes it anew"
    context.plan(module).insert_before(node, f"{context.rt(module)}.barrier()", context.code, reason)
    context.applied("a file is written anew once all ranks have read it", write.module, write.node)


def _is_within_one_line(write: Event, read: Event) -> bool:
    """`json.dump(json.load(open(path)), open(path, "w"))`, where no line could wait in between."""
    one, other = (next(iter(event.here.up()), None) for event in (write, read))
    return one is not None and one is other and read.before(write)


def _place(context: Context, write: Event, read: list[Event]) -> tuple[Module, cst.CSTNode]:
    """Above what rank 0 alone does there, and above a test of what files there are, unless that is read behind it."""
    callers = [one for one in write.here.up() if not one.arm and one.frame is not write.here.frame]
    by_one = [(one.frame.module, one.node) for one in callers if _is_for_one(context, one)]
    if by_one:
        return by_one[-1]
    guards = context.plan(write.module).guards
    module, place = context.above_file_tests(write, ways_to(one for one in read if one.before(write)))
    guarded = [node for node in (write.node, *write.module.enclosing(write.node)) if node in guards]
    if module is write.module and guarded and place in (*guarded, *_inside(guarded[-1], module, place)):
        return module, guarded[-1]
    return module, place


def _is_for_one(context: Context, here: Here) -> bool:
    """Whether rank 0 alone comes to a statement, or to all of its line."""
    parts = here.node.body if isinstance(here.node, cst.SimpleStatementLine) else ()
    return any(map(context.plan(here.frame.module).comes_alone, (here.node, *parts)))


def _inside(outer: cst.CSTNode, module: Module, node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    return (node,) if outer in module.enclosing(node) else ()
