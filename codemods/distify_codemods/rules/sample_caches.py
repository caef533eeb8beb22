"""Files that a data set reads where they are there, and writes where they are not, as a loader asks for samples.

Where each rank has samples of its own, so has it files of its own. Where all of them load the same samples, they write
and read the same file at one time, and there is nothing that they could wait at: a loader calls it, perhaps in
processes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from distify_codemods import tree
from distify_codemods.decisions.base import Dealing, Sharding
from distify_codemods.facts import Loader
from distify_codemods.libraries import effects, listings
from distify_codemods.rules import attempts
from distify_codemods.rules.base import Context, call_of
from distify_codemods.unfollowed import Unfollowed, called_for

#: Each rank loads what it computes with, and nothing else.
_APART = (Sharding.TRAINING, Sharding.SUMS)
_PUT_IN_PLACE = effects.IN_PLACE | listings.REMOVES


def put_in_place(context: Context) -> list[Unfollowed]:
    """What writes such a file: one that is seen to be named where it is written comes into its place whole, and of what
    else there is a person is told here.
    """
    found = {write.node: (write, read) for write, read in _written_and_read(context)}
    for write, read in found.values():
        place = _place_of_the_path(write)
        if place is None or not context.editable(write.module, write.node, "a file is written"):
            context.needs_you(
                f"all ranks load the same samples, and each writes this file with `{write.code}` and reads it with "
                f"`{read.code}`: one may read what another has half written",
                write.module, write.node,
                attempts.IN_ONE_PIECE,
            )  # fmt: skip
            continue
        beside = f"{context.rt(write.module)}.in_one_piece({{}}{f', {place}' * bool(place)})"
        reason = "all ranks load the same samples, and may write and read this file at one time"
        context.plan(write.module).replace(write.node.func, call_of(beside), context.code, reason)
        context.applied("a file comes into its place once it is whole", write.module, write.node)
    return [write for write, _ in found.values()]


def _place_of_the_path(write: Unfollowed) -> int | None:
    """Which argument it is; None: of none is it seen that it names one file, which is written anew."""
    if write.name in effects.FILES:
        mode = tree.string(write.node.args[1].value) if len(write.node.args) > 1 else None
        return 0 if mode is not None and set(mode) <= set("wbt") else None
    known, one_file = effects.writing(write.name), effects.writes_one_file(write.name.removeprefix("."))
    return known.path if known is not None and known.path >= 0 and one_file else None


def _written_and_read(context: Context) -> Iterator[tuple[Unfollowed, Unfollowed]]:
    for loader in context.facts.loaders:
        if not _loads_its_own(context, loader):
            calls = list(called_for(context.facts, loader.made))
            reading = {call.path: call for call in calls if call.reads}
            for write in calls:
                if _writes_bit_by_bit(write) and write.path and write.path in reading:
                    yield write, reading[write.path]


def _loads_its_own(context: Context, loader: Loader) -> bool:
    """Whether a loader asks for no sample on two ranks."""
    decisions = context.decisions
    dealing = {one.dealing for one in decisions.loaders if loader in one.loaders}
    return decisions.sharding_of(loader.obj) in _APART and Dealing.STREAM not in dealing


def _writes_bit_by_bit(call: Unfollowed) -> bool:
    """Whether it writes a file by its name, and does not put one in place that is whole."""
    return call.writes and call.name not in effects.INTO_A_HANDLE and call.name.removeprefix(".") not in _PUT_IN_PLACE
