"""`--why`: the chains of what was seen, a heading for each kind of thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from distify_codemods import Belief, Place

from distify.checklist import wrapped
from distify.terminal import Line

HEADINGS = {
    "model": "models",
    "optimizer": "optimizers",
    "loader": "loaders",
    "loop": "loops over batches",
    "backward": "backward passes",
    "step": "steps",
    "save": "saves",
}


def chains(beliefs: Sequence[Belief], columns: int | None = None) -> Iterator[Line]:
    """A sentence for each belief, with its place in front, wrapped to `columns` (None: one line each)."""
    for role, same in groupby(beliefs, key=lambda belief: belief.role):
        mine = list(same)
        yield ((HEADINGS[role], "bold"), (f" ({len(mine)})", "bold"))
        for belief in mine:
            for line in wrapped(f"{belief.place}: {belief}", "  ", columns):
                yield ((line, ""),)


def as_json(belief: Belief) -> dict[str, Any]:
    return {
        "role": belief.role,
        "name": belief.name,
        "what": belief.what,
        **_place(belief.place),
        "because": [{"text": reason.text, **_place(reason.place)} for reason in belief.because],
    }


def _place(place: Place) -> dict[str, Any]:
    return {"path": place.path, **({"cell": place.cell} if place.cell else {}), "line": place.line}
