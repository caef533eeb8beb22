"""Branches that a rank takes by its own samples, and of which something is seen: a line, a count, what is kept.

Counted over the ranks, half a batch without a mistake is no batch without a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.answers import answered_once
from distify_codemods.decisions import form_tests
from distify_codemods.decisions.differing import Guarded, guarded, matters
from distify_codemods.decisions.log_records import shown_records
from distify_codemods.decisions.sinks import Kind as Sinks
from distify_codemods.decisions.sinks import sinks
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.origins import Choice
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE

#: What is kept where it is put, and no argument or result of a function.
_KEPT = (Sinks.ADDED, Sinks.COUNTED, Sinks.LOGGED)


def decides(facts: Facts, test: Event) -> bool:
    """Whether ranks must agree on a test that differs: by what it decides for the run, or by what is seen of it."""
    return matters(facts, test, guarded(facts)) or _is_seen(facts, test)


def _is_seen(facts: Facts, test: Event) -> bool:
    if not facts.shares_of_training(test.value) or form_tests.is_of_form(facts, test):
        return False
    seen = _seen(facts)
    if seen.shown.get((test.node, test.here.frame.context), -1) > test.number or test.node in seen.chosen:
        return True
    return test.node in seen.keeping and test.value.scale not in PER_SAMPLE  # else counted sample by sample


@dataclass(frozen=True)
class _Seen:
    shown: Guarded  # the last line that is shown or logged in an arm of a branch
    keeping: set[cst.CSTNode]  # branches with something in them that is kept
    chosen: set[cst.CSTNode | None]  # branches by which something was chosen that is shown or kept


@answered_once
def _seen(facts: Facts) -> _Seen:
    lines = [*facts.of_kind(Kind.PRINT), *shown_records(facts)]
    shown = {(here.node, here.frame.context): event.number for event in lines for here in event.here.up() if here.arm}
    kept = [sink for sink in sinks(facts) if sink.kind in _KEPT and not sink.fresh]
    keeping: set[cst.CSTNode] = {
        around for sink in kept for around in sink.module.enclosing(sink.node) if isinstance(around, cst.If)
    }
    chosen = {site for event in lines for site in _choices(facts, event.node)}
    return _Seen(shown, keeping, chosen | {site for sink in kept for site in _choices(facts, sink.value)})


def _choices(facts: Facts, node: cst.CSTNode) -> Iterator[cst.CSTNode | None]:
    for one in tree.walk(node):
        if isinstance(one, cst.BaseExpression):
            yield from (source.site for source in facts.value(one).sources if isinstance(source, Choice))
