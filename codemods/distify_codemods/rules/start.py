"""Where a script begins in earnest: what has to come before that, and where it goes."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions import between
from distify_codemods.decisions.base import chain
from distify_codemods.decisions.log_records import log_records
from distify_codemods.decisions.own_streams import has_a_stream_of_its_own
from distify_codemods.events import Event, Kind
from distify_codemods.interpreter.frames import Frame
from distify_codemods.libraries import devices, drawing, seeding
from distify_codemods.rules import data_caches, paths
from distify_codemods.rules.base import Context
from distify_codemods.rules.download import downloads


def place(context: Context) -> tuple[cst.CSTNode, bool] | None:
    """After the command line is read, if nothing that matters happens before that; else before the first that does."""
    meetings = paths.meetings(context)
    early = meetings | {event.node for event in log_records(context.facts)}
    begins = (one for one in context.facts.run.events if one.node in early or (_matters(one) and not one.unused))
    first = next((event for event in begins if _level(context, event, meetings)), None)
    if first is None:
        return None
    spine = _spine(context, first)
    read = context.facts.of_kind(Kind.ARGUMENTS_PARSED)
    parsed = next((event for event in read if _level(context, event, meetings)), None)
    if parsed is not None and parsed.before(first):
        for (frame, one), (other_frame, other) in zip(_own(context, parsed), spine, strict=False):
            if frame is other_frame and one is not other:
                return one, True
            if frame is not other_frame:
                break
    return spine[-1][1], False


def _spine(context: Context, event: Event) -> list[tuple[Frame, cst.CSTNode]]:
    """The statements that lead to an event, through `if __name__ == "__main__":` and into one `main()`."""
    training = {node for loop in context.facts.training_loops[:1] for _, node in _own(context, loop.event)}
    found: list[tuple[Frame, cst.CSTNode]] = []
    for frame, node in _own(context, event):
        entered = {id(one) for one, _ in found}
        further = found and found[-1][1] in training and _leads_on(found[-1][1])
        if found and (not further or (len(entered) == 2 and id(frame) not in entered)):
            break
        found.append((frame, node))
    return found


def _own(context: Context, event: Event) -> list[tuple[Frame, cst.CSTNode]]:
    """The statements of the entry's file that an event happens in, up to where another file begins."""
    found = []
    for frame, node in chain(event):
        if frame.module is not context.entry:
            break
        found.append((frame, node))
    return found


def _level(context: Context, event: Event, meetings: set[cst.CSTNode]) -> bool:
    """Whether the event is the script's own doing; an import's only if other ranks have a part in it.

    They have in what is drawn there, which is rank 0's from the start of the group on.
    """
    own = _own(context, event)
    imported = own and (
        isinstance(own[0][1], cst.SimpleStatementLine) and isinstance(own[0][1].body[0], (cst.Import, cst.ImportFrom))
    )
    return bool(own) and (not imported or event.node in meetings or _concerns_ranks(context, event))


def _concerns_ranks(context: Context, event: Event) -> bool:
    if event.kind is Kind.CALL:
        loaders = {loader.made for loader in context.facts.loaders}
        ours = event in loaders or bool(event.value.objs & set(context.facts.models)) or downloads(event)
        ours = ours or event in data_caches.built(context.facts)
        return ours or _may_draw(event) or _chooses_a_device(event)
    if event.kind is Kind.METHOD:
        return _matters(event)
    if event.kind is Kind.LOOP:
        return any(loop.event is event for loop in context.facts.loops)
    return event.kind is Kind.FORWARD


def _may_draw(event: Event) -> bool:
    """Whether random numbers are drawn from the streams that ranks have in common, or that cannot be told."""
    unknown = drawing.may_draw(event.name) and not seeding.is_seeding(event.name)
    return between.draws(event) or (unknown and not has_a_stream_of_its_own(event))


def _chooses_a_device(event: Event) -> bool:
    """Whether a library puts something on a GPU, or asks for its number: before the group that is each rank's first."""
    if event.name.startswith(devices.USES):
        return True
    given = (event.arguments.keywords.get(name) for name in ("device", "map_location"))
    return any(one is not None and not one.is_none and one.constant() != "cpu" for one in given)


def _matters(event: Event) -> bool:
    if event.kind is Kind.CALL:
        return not event.name.startswith(devices.HARMLESS) or between.draws(event)
    if event.kind is Kind.METHOD:
        return event.name in ("cuda", "to") or between.draws(event)
    return event.kind in (Kind.FORWARD, Kind.LOOP)


def _leads_on(node: cst.CSTNode) -> bool:
    """`if __name__ == "__main__":` and a plain call of a function: what matters is inside."""
    return tree.is_main_test(node) or (
        isinstance(node, cst.SimpleStatementLine)
        and isinstance(node.body[0], cst.Expr)
        and isinstance(node.body[0].value, cst.Call)
        and isinstance(node.body[0].value.func, cst.Name)
    )
