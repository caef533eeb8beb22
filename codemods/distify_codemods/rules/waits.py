"""Where ranks wait for what rank 0 has written, before they read it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import file_events, opened, tree
from distify_codemods.events import Event, Here, Kind
from distify_codemods.file_events import path_of, reads
from distify_codemods.file_names import Names, into_a_handle
from distify_codemods.interpreter.frames import CALLED
from distify_codemods.libraries import effects, listings
from distify_codemods.program import Module
from distify_codemods.rules import attempts, barriers, disk, handed_over, passes, rewrites, together, unequal, workers
from distify_codemods.rules.base import Context, ways_to
from distify_codemods.rules.download import downloads
from distify_codemods.values import Value


def run(context: Context) -> bool:
    """Whether there was anything to wait for."""
    events = context.facts.run.events
    written = [event for event in events if context.writes(event) and not into_a_handle(event)]
    removals = [event for event in written if event.name.startswith(effects.REMOVES) and not _moves_one(event, written)]
    kept_open = [one for one in written if one.value.objs and not context.is_on_main(one.module, one.node)]
    into = opened.written_into(context.facts, kept_open)
    found, names = False, context.names
    for event in context.facts.of_kind(Kind.CALL, Kind.METHOD, Kind.FORWARD, Kind.PASS):
        if event in context.named_writers:
            continue
        makes = event.name in effects.MAKES_FOLDERS
        if makes:
            waited_for = [removal for removal in removals if _may_be_gone(context, removal, event)]
        else:
            waited_for = _awaited(context, event, written, names)
            waited_for += [one for write in waited_for for one in into.get(write, ()) if may_come_before(one, event)]
        if (
            not waited_for
            or context.is_on_main(event.module, event.node)
            or context.takes_turns(event)
            or barriers.serve(context.barriers, event, waited_for)
        ):
            continue
        found = True
        _wait(context, event, waited_for)
    return rewrites.run(context, written, names) or found


def _wait(context: Context, event: Event, waited_for: list[Event]) -> None:
    if not context.editable(event.module, event.node, "a file is read that the run wrote"):
        return
    place_above = place_to_wait(context, event, waited_for)
    if handed_over.is_written_within(context, event, place_above, waited_for):
        return
    found = attempts.outside(context, event, place_above, waited_for)
    if found is None and (there := together.written(context, event, place_above, waited_for)):
        waited_for = [write for write in waited_for if write not in there]
        context.applied("all ranks wait where rank 0 writes the file, and fail as it does", event.module, event.node)
        if not waited_for:
            return
        found = attempts.outside(context, event, place_above, waited_for)
    if found is None:
        context.needs_you(
            "a file is read in the `try` that writes it: where it fails on rank 0 alone, the others would wait for it",
            event.module, event.node, attempts.what_to_do(context, event),
        )  # fmt: skip
        return
    module, place = found
    barrier = barriers.before(event, module, place)
    if unequal.in_unequal_turns(context, barrier.loops):
        context.needs_you(
            "a file that rank 0 writes is read in a loop that ranks run through in their own time",
            event.module, event.node, "read it before or after the loop, after `rt.barrier()`",
        )  # fmt: skip
        return
    if unequal.by_how_far_it_is(context, barrier):
        told = any(context.names.agree(write, event) for write in waited_for)
        return _tell_that_none_waits(context, event, told)
    context.barriers.append(barrier)
    text, plan = f"{context.rt(module)}.barrier()", context.plan(module)
    if event.name in effects.MAKES_FOLDERS:
        removed = any(_is_removed(context, one, event) for one in waited_for)
        reason = "has removed what was there before" if removed else "may have moved or removed what was there"
        plan.insert_before(place, text, context.code, f"rank 0 {reason}")
        done = "a folder is made once rank 0 has removed the old one"
        if not removed:
            done = "ranks wait for rank 0, which may have moved or removed what is there, before they make a folder"
        context.applied(done, event.module, event.node)
    else:
        reason = "rank 0 has written the file before it is read"
        if disk.lists(context, event):
            reason = "rank 0 has written what is in the folder before the others look into it"
        plan.insert_before(place, text, context.code, reason)
        agrees = reads(event) and any(context.names.agree(write, event) for write in waited_for)
        done = "a file is read once rank 0 has written it"
        if disk.lists(context, event):
            done = "ranks wait for rank 0 before they look into a folder that it may have written to"
        elif not agrees:
            done = "ranks wait for rank 0 before they read a file that it may have written"
        context.applied(done, event.module, event.node)


def _tell_that_none_waits(context: Context, event: Event, certain: bool) -> None:
    """Ranks come there in their own time. certain: rank 0 writes that very file."""
    if certain:
        context.needs_you(
            "a file that rank 0 writes is read where ranks come in their own time, and cannot wait for it",
            event.module, event.node, "read it before, after `rt.barrier()`, and hand over what is in it",
        )  # fmt: skip
        return
    context.advice(
        "a file is read here that rank 0 may have written, and ranks come here in their own time: none waits for it",
        event.module, event.node,
    )  # fmt: skip


def place_to_wait(context: Context, event: Event, waited_for: list[Event]) -> tuple[Module, cst.CSTNode]:
    """Above loops and tests of what files there are, and where ranks can meet."""
    writing = {node for write in waited_for for node in write.turns}
    before = ways_to(write for write in waited_for if write.before(event)) | (writing & event.turns)

    def is_loop(node: cst.CSTNode) -> bool:
        return isinstance(node, (cst.For, cst.While)) and node not in writing

    def is_called_in_turns(call: Here) -> bool:
        """Whether the function is called over and over once all of that is written: who waits in it waits each time."""
        turns = {here.node for one in context.facts.run.at(event.node) for here in _loops_around(one, call)}
        return not turns <= writing

    own = _listing(context, event) or context.above_file_tests(event, before, is_loop, leaves=is_called_in_turns)
    own = passes.above(context.facts, event, own)
    return handed_over.outside(context, event, own, before, is_loop, is_called_in_turns)


def _loops_around(event: Event, call: Here) -> Iterator[Here]:
    """The loops of an event around a call of the same function."""
    entered = next(
        (one.parent for one in event.here.up() if one.arm == CALLED and one.frame.node is call.frame.node), None
    )
    yield from entered.loops if entered is not None else ()


def _may_be_gone(context: Context, removal: Event, made: Event) -> bool:
    """Whether rank 0 may be removing a folder, or one around it, while another rank makes it."""
    if not may_come_before(removal, made) or context.either.excludes(removal, made):
        return False
    given = () if removal.name.startswith(effects.SHELL) else removal.arguments.positional[:1]
    removed, wanted = next((one.constant() for one in given), None), path_of(made).constant()
    known = isinstance(removed, str) and isinstance(wanted, str)
    return not known or str(wanted).startswith(str(removed))


def _is_removed(context: Context, removal: Event, made: Event) -> bool:
    """Whether it is seen to remove that folder, or one around it: it moves nothing, and names what the other names."""
    if removal.name in effects.IN_PLACE or removal.name.startswith(effects.SHELL):
        return False
    first, made_of = _first(removal), made.receiver_node if made.kind is Kind.METHOD else _first(made)
    if first is None or made_of is None:
        return False
    one, other = context.facts.value(first), context.facts.value(made_of)
    if isinstance(one.constant(), str) and isinstance(path_of(made).constant(), str):
        return True  # one of which it is known that the other lies in it: see `_may_be_gone`
    parts = {tree.code_of(part) for part in tree.walk(made_of) if isinstance(part, cst.BaseExpression)}
    beside = removal.here.frame.node is made.here.frame.node
    return not one.objs.isdisjoint(other.objs) or (beside and tree.code_of(first) in parts)


def _first(event: Event) -> cst.BaseExpression | None:
    plain = [arg.value for arg in event.node.args if arg.keyword is None] if isinstance(event.node, cst.Call) else []
    return plain[0] if plain else None


def _moves_one(removal: Event, written: list[Event]) -> bool:
    """`part.replace(path)`, after `torch.save(state, part)`: what is gone then was a file, and no folder."""
    call = removal.node
    if removal.name not in effects.IN_PLACE or not isinstance(call, cst.Call):
        return False
    of_method = removal.kind is Kind.METHOD and isinstance(call.func, cst.Attribute)
    moved = call.func.value if of_method and isinstance(call.func, cst.Attribute) else call.args[0].value
    text, function = tree.code_of(moved), removal.here.frame.node
    return any(
        text == tree.code_of(arg.value)
        for one in written
        if one.before(removal) and one.here.frame.node is function and effects.writes_one_file(one.name)
        for arg in (one.node.args if isinstance(one.node, cst.Call) else ())
    )


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
    before = [one for one in written if may_come_before(one, event)]
    if event.kind is Kind.PASS:
        return [one for one in before if one in workers.written_for(context, event)]
    if disk.lists(context, event):
        asks = disk.each_answers(context, event)
        return [one for one in before if asks and disk.may_be_listed(context, one, event)]
    if reads(event):
        # what they make is no file that could be read: that is written by something else
        before = [one for one in before if one.name not in effects.ONLY_FOLDERS]
        # who reads what is gone fails, but where the script goes on after that
        left = attempts.is_in_one(event)
        before = [one for one in before if one.name not in listings.REMOVES or left or names.agree(one, event)]
    elif passes.holds(context.facts, event):
        return []  # a layer, which is given tensors
    paths = [path_of(event)] if reads(event) else file_events.unknown_paths(context.facts, event) if before else []
    found = [write for write in before if any(names.may_be_one(write, event, path) for path in paths)]
    return [write for write in found if not context.either.excludes(write, event)]


def may_come_before(write: Event, read: Event) -> bool:
    return write is not read and (write.before(read) or not write.turns.isdisjoint(read.turns))
