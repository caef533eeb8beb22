"""Batches of a batch sampler, which may each be filled up with copies, where a loss relates samples to each other.

The batches of a batch size divide by the ranks, but for the last one of a pass. A batch sampler makes batches of any
size: an episode of 15 samples, say. Each would be filled up with copies of its own samples, and the whole batch that is
gathered would be larger than the script's: `out[:5]`, and labels that are made for its places, would no longer fit.
"""

from __future__ import annotations

from collections.abc import Iterator

from distify_codemods.decisions import dealing
from distify_codemods.decisions.base import Decisions, Link, Sharding


def links(decisions: Decisions) -> Iterator[Link]:
    related = {site for joining in decisions.joinings for site in joining.dealt_at}
    for one in decisions.loaders:
        own = any(map(dealing.makes_own_batches, one.loaders))
        if own and one.sharding is Sharding.TRAINING and one.node in related:
            yield Link(
                one.module, one.node,
                "a batch sampler makes the batches, and one that does not divide by the ranks would be filled up with "
                "copies of its own samples, to which the loss relates the others",
                "batches of a `batch_size` divide by the ranks",
            )  # fmt: skip
