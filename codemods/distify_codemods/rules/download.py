"""DATA03: one process downloads, the others wait."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.base import Sharding
from distify_codemods.events import Event, Kind
from distify_codemods.rules.base import MAIN_FIRST, Context, Rule
from distify_codemods.tree import walk

CODE = "DATA03"


def run(context: Context) -> None:
    found = [event for event in context.facts.of_kind(Kind.CALL) if _downloads(event)]
    for event in found:
        place = _place(context, event)
        if place is None:
            context.needs_you(
                "a download, in a file that is not converted", event.module, event.node, "move it into the script"
            )
            continue
        within = event.node if event.module is context.entry else None
        if _makes_a_sampler(context, place, event):
            context.needs_you(
                "the statement that downloads also makes the training loader, whose sampler waits for all ranks", context.entry, place,
                "make the dataset in a statement of its own",
            )  # fmt: skip
            continue
        rt = context.rt(context.entry)
        reason = "one process downloads, the others find the files there"
        context.plan(context.entry).guard(place, MAIN_FIRST.format(rt=rt), CODE, reason, within)
        context.applied("rank 0 downloads first", context.entry, place)
    if not found:
        context.not_needed("nothing is downloaded")


def _downloads(event: Event) -> bool:
    value = event.arguments.get("download")
    if value is not None and not event.name.startswith("local."):
        return value.constant() is not False
    return event.name.endswith(
        ("urlretrieve", "wget.download", "gdown.download", "download_url", "download_and_extract_archive")
    )


def _makes_a_sampler(context: Context, place: cst.CSTNode, event: Event) -> bool:
    """A collective under the guard would wait for ranks that wait for the guard."""
    loaders = {decision.node for decision in context.decisions.loaders if decision.sharding is Sharding.TRAINING}
    for other in context.facts.of_kind(Kind.CALL):
        if other.node in loaders and any(here.node is place for here in other.here.up()):
            in_place = other.module is context.entry and other.module.statement(other.node) is place
            if not in_place or event.node not in set(walk(other.node)):
                return True
    return False


def _place(context: Context, event: Event) -> cst.CSTNode | None:
    """The statement of the script that makes it happen: itself, or the call that leads to another file."""
    for here in event.here.up():
        node = here.node
        if (
            here.frame.module is context.entry
            and not here.arm
            and isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
        ):
            return node if isinstance(node, cst.SimpleStatementLine) else None
    return None


RULE = Rule(
    code=CODE,
    name="downloads",
    why="Processes that download the same file at once corrupt it or fail.",
    safety="A statement that may download runs on rank 0 first, then on the first rank of every other node, then on the rest.",
    run=run,
    pitfalls=(14,),
)
