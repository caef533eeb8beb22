"""The places of samples in a batch, and rows of something else that they are paired with by these: on each rank, the
first places and rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.decisions.base import Decisions, Link, made_at
from distify_codemods.decisions.marks import marks, with_evidence
from distify_codemods.decisions.own_streams import has_a_stream_of_its_own
from distify_codemods.events import Kind
from distify_codemods.facts import Facts
from distify_codemods.naming import brief
from distify_codemods.origins import Counter, Draw, Paired, Placed
from distify_codemods.values import NOTHING, Value


def links(decisions: Decisions) -> Iterator[Link]:
    facts = with_evidence(decisions.facts)
    for mark in marks(facts, Paired):
        module, site = made_at(mark)
        table = facts.value(site.value) if isinstance(site, cst.Subscript) else NOTHING
        if mark.by is not None and _counts_batches(facts, mark.by):
            why = "by the number of a batch: each rank would pair its own samples with the rows of all of them"
        elif mark.by is None and (decisions.slicings or not _is_drawn_for_it(facts, table)):
            why = (
                "by numbers that are counted from the number of samples: each rank would pair its own samples with the "
                "first rows"
            )
        else:
            continue
        yield Link(
            module, site, f"`{brief(site)}` takes rows {why}",
            "rows that belong to samples could come with them, from the data set or by the samples' own numbers",
        )  # fmt: skip
    for placed in marks(facts, Placed):
        module, site = made_at(placed)
        yield Link(
            module, site,
            f"the loss depends on what `{brief(site)}` says of the places of samples in their batch: each rank would "
            "count its own samples from the first place on",
            "what tells samples apart could come with them, from the data set or by the samples' own numbers",
        )  # fmt: skip


def _counts_batches(facts: Facts, counter: Counter) -> bool:
    """Whether it is another number for each batch of a training loop."""
    loops = {loop.node for loop in facts.training_loops}
    if counter.loop is not None or not isinstance(counter.site, (cst.AugAssign, cst.Assign)):
        return counter.loop in loops
    outer = facts.module_of(counter.site).enclosing(counter.site)
    around = next((one for one in outer if isinstance(one, (cst.For, cst.While, cst.FunctionDef))), None)
    return around in loops or (isinstance(around, cst.FunctionDef) and _may_be_called_in_a_turn(facts, around))


def _may_be_called_in_a_turn(facts: Facts, function: cst.FunctionDef) -> bool:
    """Unless all that is seen to happen in it happens elsewhere."""
    inside = [event for event in facts.run.events if any(here.node is function for here in event.here.up())]
    return not inside or any(map(facts.in_training, inside))


def _is_drawn_for_it(facts: Facts, value: Value) -> bool:
    """Whether each rank draws it by itself in the batch's turn: one row is as good as another."""
    sites = {source.site for source in value.sources if isinstance(source, Draw)}
    drawing = [event for event in facts.of_kind(Kind.CALL, Kind.METHOD) if event.node in sites]
    return bool(drawing) and all(facts.in_training(one) and not has_a_stream_of_its_own(one) for one in drawing)
