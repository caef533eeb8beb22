"""What is printed or logged of training for rank 0's share of the batch alone, once figures are put together."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from distify_codemods.decisions.base import Decisions
from distify_codemods.decisions.shown import stays
from distify_codemods.decisions.views import beside_training
from distify_codemods.events import Event
from distify_codemods.facts import Facts


def alone(decisions: Decisions, lines: Iterable[Event]) -> dict[Event, list[cst.BaseExpression]]:
    """Of these lines, those that show something of it, and what. Before training, all ranks load whole batches."""
    facts, averaged = decisions.facts, {one.node for one in decisions.averages}
    begun = min((loop.event.number for loop in facts.training_loops), default=0)
    found = {event: stays(facts, event, averaged) for event in dict.fromkeys(lines) if event.number > begun}
    found = {event: figures for event, figures in found.items() if figures}
    if found and (whole := beside_training(facts)):
        seen = facts.tried(whole=whole)
        found = {event: figures for event, figures in found.items() if _takes_shares(seen, event)}
    return found


def _takes_shares(seen: Facts, event: Event) -> bool:
    given = event.node.args if isinstance(event.node, cst.Call) else ()
    return not given or any(seen.shares_of_training(seen.value(one.value)) for one in given)
