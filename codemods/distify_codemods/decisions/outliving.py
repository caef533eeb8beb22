"""Random numbers that each rank draws for its own batch, and that a later turn's loss depends on.

What a rank has drawn in a turn is its own. Where it outlives the turn, ranks would go on with numbers that differ: a
weight, a scale, a mask. One number for a whole batch is rank 0's (see `agreement`); of the others nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.decisions import streams
from distify_codemods.decisions.base import Decisions, Link, made_at
from distify_codemods.decisions.marks import marks, with_evidence
from distify_codemods.decisions.own_streams import has_a_stream_of_its_own
from distify_codemods.events import Kind
from distify_codemods.naming import brief
from distify_codemods.origins import Outlived


def links(decisions: Decisions) -> Iterator[Link]:
    found = marks(with_evidence(decisions.facts), Outlived)
    apart = _drawn_apart(decisions, {mark.draw.site for mark in found if mark.draw is not None})
    for mark in {mark.draw: mark for mark in reversed(found)}.values():  # where it is kept first
        if mark.draw is not None and mark.draw.site in apart:
            module, site = made_at(mark)
            yield Link(
                module, site,
                f"`{brief(site)}` keeps random numbers that each rank draws for its own batch, and the loss of a later "
                "one depends on them",
                "numbers that are drawn before training, or from a generator with a seed of its own, are the same on "
                "all ranks",
            )  # fmt: skip


def _drawn_apart(decisions: Decisions, sites: set[cst.CSTNode | None]) -> set[cst.CSTNode]:
    """Those at which each rank draws numbers of its own: not what rank 0 tells, nor where all draw alike."""
    facts = decisions.facts
    drawing = [event for event in facts.of_kind(Kind.CALL, Kind.METHOD) if event.node in sites]
    told = {event.node for event in streams.choices(facts)} if drawing else set()
    told |= {one.node for one in decisions.averages if one.told}
    return {
        event.node for event in drawing
        if not (decisions.slicings and not facts.in_a_model(event))  # all draw alike, but in models
        and not has_a_stream_of_its_own(event)
        and told.isdisjoint((event.node, *event.module.enclosing(event.node)))
    }  # fmt: skip
