"""What the data sets of loaders read of what the run writes, perhaps in processes of their own."""

from __future__ import annotations

from distify_codemods.events import Event
from distify_codemods.file_events import reads
from distify_codemods.later import in_workers
from distify_codemods.libraries.checkpoints import LOAD
from distify_codemods.rules.base import Context


def written_for(context: Context, begins: Event) -> frozenset[Event]:
    """What writes a file that a pass over a loader reads.

    Where something says that it is the same file: of most that a data set reads, nothing tells which it is. Each pass
    is looked into once: what has happened in a run is noted once.
    """
    if begins not in context.read_in_passes:
        names = context.names
        with in_workers(context.facts, begins) as found:
            read = [one for one in found if reads(one) or one.name == LOAD]
            context.read_in_passes[begins] = frozenset(
                write for write in context.files_written
                if any(names.may_be_one(write, one) and names.agree(write, one) for one in read)
            )  # fmt: skip
    return context.read_in_passes[begins]
