"""Where ranks wait for what rank 0 has written, before they read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from distify_codemods import file_events, tree
from distify_codemods.decisions.base import Sharding
from distify_codemods.events import Event, Kind
from distify_codemods.file_events import path_of, reads
from distify_codemods.file_names import Names, into_a_handle
from distify_codemods.libraries import effects
from distify_codemods.program import Module
from distify_codemods.rules import attempts
from distify_codemods.rules.base import Context
from distify_codemods.rules.download import downloads
from distify_codemods.values import CallChain, Value

MAKES_FOLDERS = frozenset({"os.makedirs", "mkdir"})
#: What they make is no file that could be read: that is written by something else.
_ONLY_FOLDERS = MAKES_FOLDERS | {"os.mkdir"}


def run(context: Context, code: str) -> bool:
    """Whether there was anything to wait for."""
    events = context.facts.run.events
    written = [event for event in events if context.writes(event) and not into_a_handle(event)]
    removals = [event for event in written if event.name.startswith(effects.REMOVES)]
    found, waits, names = False, list[_Wait](), Names(context.facts)
    for event in context.facts.of_kind(Kind.CALL, Kind.METHOD, Kind.FORWARD):
        if event in context.named_writers:
            continue
        makes = event.name in MAKES_FOLDERS
        if makes:
            waited_for = [removal for removal in removals if _may_be_gone(removal, event)]
        else:
            waited_for = _awaited(context, event, written, names)
        if not waited_for or context.is_on_main(event.module, event.node) or _is_served(waits, event, waited_for):
            continue
        found = True
        _wait(context, event, waited_for, waits, code)
    return found


_Conditions = frozenset[tuple[cst.CSTNode, str, CallChain]]


@dataclass(frozen=True)
class _Wait:
    """All ranks wait here, before an event."""

    event: Event
    place: cst.CSTNode
    loops: frozenset[cst.CSTNode]  # around the place
    conditions: _Conditions  # that the place is under

    def serves(self, other: Event, written: list[Event], conditions: _Conditions) -> bool:
        """Whether all that is written is there, whenever the other event happens, under its conditions."""
        if not self.event.before(other) or not self.conditions <= conditions:
            return False
        around = {here.node for here in other.loops()}
        return self.loops <= around and all(
            write.before(self.event)
            and {here.node for here in write.loops()} & around <= self.loops
            and all(here.node is not self.place for here in write.here.up())
            for write in written
        )


def _is_served(waits: list[_Wait], event: Event, waited_for: list[Event]) -> bool:
    conditions = event.here.conditions()
    return any(wait.serves(event, waited_for, conditions) for wait in waits)


def _conditions_at(event: Event, place: cst.CSTNode) -> _Conditions:
    """Those of a place before an event, as execution came to it."""
    own = event.here
    return next((here for here in own.up() if here.node is place and not here.arm), own).conditions()


def _wait(context: Context, event: Event, waited_for: list[Event], waits: list[_Wait], code: str) -> None:
    if not context.editable(event.module, event.node, "a file is read that the run wrote"):
        return
    writing = {here.node for write in waited_for for here in write.loops()}
    module, place = _listing(context, event) or context.above_file_tests(
        event, lambda node: isinstance(node, (cst.For, cst.While)) and node not in writing
    )
    found = attempts.outside(context, event, (module, place), waited_for)
    if found is None:
        context.needs_you(
            "a file is read in the `try` that writes it: where it fails on rank 0 alone, the others would wait for it",
            event.module, event.node, "read it after the `try`",
        )  # fmt: skip
        return
    module, place = found
    loops = frozenset(_loops_around(event, module, place))
    if _in_unequal_turns(context, loops):
        context.needs_you(
            "a file that rank 0 writes is read in a loop that ranks run through in their own time",
            event.module, event.node, "read it before or after the loop, after `rt.barrier()`",
        )  # fmt: skip
        return
    waits.append(_Wait(event, place, loops, _conditions_at(event, place)))
    text, plan = f"{context.rt(module)}.barrier()", context.plan(module)
    if event.name in MAKES_FOLDERS:
        plan.insert_before(place, text, code, "rank 0 has removed what was there before")
        context.applied("a folder is made once rank 0 has removed the old one", event.module, event.node)
    else:
        plan.insert_before(place, text, code, "rank 0 has written the file before it is read")
        context.applied("a file is read once rank 0 has written it", event.module, event.node)


def _loops_around(event: Event, module: Module, place: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The loops of an event that its place is inside of, too."""
    inside = {id(node) for node in tree.walk(place)}
    for here in event.loops():
        if here.frame.module is not module or id(here.node) not in inside:
            yield here.node


def _may_be_gone(removal: Event, made: Event) -> bool:
    """Whether rank 0 may be removing a folder, or one around it, while another rank makes it."""
    if not removal.before(made) and not {here.node for here in removal.loops()} & {here.node for here in made.loops()}:
        return False
    given = () if removal.name.startswith(effects.SHELL) else removal.arguments.positional[:1]
    removed, wanted = next((one.constant() for one in given), None), path_of(made).constant()
    known = isinstance(removed, str) and isinstance(wanted, str)
    return not known or str(wanted).startswith(str(removed))


def _listing(context: Context, event: Event) -> tuple[Module, cst.CSTNode] | None:
    """`for name in os.listdir(folder):` with a file in it that is read: what is listed was there before the loop."""
    path = event.arguments.positional[0] if event.arguments.positional else Value()
    for here in event.loops() if "file" in path.sources else ():
        if isinstance(here.node, cst.For) and "file" in context.facts.value(here.node.iter).sources:
            return here.frame.module, here.node
    return None


def _awaited(context: Context, event: Event, written: list[Event], names: Names) -> list[Event]:
    """What rank 0 may have written of what an event reads; who does something unknown to a path may read it, too."""
    if downloads(event):
        return []  # the others come when rank 0 is done
    before = [one for one in written if _may_come_before(one, event)]
    if reads(event):
        before = [one for one in before if one.name not in _ONLY_FOLDERS]
    paths = [path_of(event)] if reads(event) else file_events.unknown_paths(context.facts, event) if before else []
    wanted = [path.constant() for path in paths]
    same = [write for write in before if any(_may_be_same(path_of(write).constant(), one) for one in wanted)]
    return [write for write in same if not names.differ(write, event)]


def _may_come_before(write: Event, read: Event) -> bool:
    in_turns = {here.node for here in write.loops()} & {here.node for here in read.loops()}
    return write is not read and (write.before(read) or bool(in_turns))


def _may_be_same(written: object, wanted: object) -> bool:
    """Also a file in a folder that is written, and one to whose name an ending is added."""
    if not isinstance(written, str) or not isinstance(wanted, str):
        return True
    one, other = written.removeprefix("./"), wanted.removeprefix("./")
    return other.startswith(one) or one.startswith(f"{other}/")


def _in_unequal_turns(context: Context, loops: frozenset[cst.CSTNode]) -> bool:
    """Whether one of these is an evaluation loop, of which ranks may have unequal numbers of batches."""
    sums = {loop.node for loop in context.facts.evaluation_loops
            if any(context.decisions.sharding_of(loader) is Sharding.SUMS for loader in loop.loaders)}  # fmt: skip
    return not sums.isdisjoint(loops)
