"""Samples that are kept from one batch to the next, and reach a loss then: each rank would keep its own of them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.decisions.base import Averaging, Link, made_at
from distify_codemods.decisions.marks import marks
from distify_codemods.facts import Facts
from distify_codemods.naming import brief
from distify_codemods.origins import Pooled


def links(seen: Facts) -> Iterator[Link]:
    """`seen`: a run for evidence."""
    for mark in marks(seen, Pooled):
        module, site = made_at(mark)
        yield Link(
            module, site,
            f"`{brief(site)}` keeps samples from one batch to the next, and the loss depends on them: each rank "
            "would keep its own share",
        )  # fmt: skip


def read_back(seen: Facts, found: list[Averaging]) -> list[cst.CSTNode]:
    """Of figures, those that are no figures: training reads what is kept of them."""
    kept = {place for mark in marks(seen, Pooled) for place in (mark.site, *mark.context)}
    return [one.node for one in found if not kept.isdisjoint((one.node, *one.module.enclosing(one.node)))]
