"""Branches that a rank takes by its own samples, and of which something is seen: a line, a count, what is kept.

Counted over the ranks, half a batch without a mistake is no batch without a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.answers import answered_once
from distify_codemods.control_flow import Scope
from distify_codemods.decisions import form_tests
from distify_codemods.decisions.differing import Guarded, guarded, matters
from distify_codemods.decisions.log_records import shown_lines
from distify_codemods.decisions.places import Place, places_of
from distify_codemods.decisions.put_into import takings
from distify_codemods.decisions.sinks import Kind as Sinks
from distify_codemods.decisions.sinks import sinks
from distify_codemods.events import Event
from distify_codemods.facts import Facts
from distify_codemods.origins import Choice
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING

_BRANCHES = (cst.If, cst.Match)
#: What is kept where it is put, and no argument or result of a function.
_KEPT = (Sinks.ADDED, Sinks.COUNTED, Sinks.LOGGED, Sinks.CARRIED)


def decides(facts: Facts, test: Event) -> bool:
    """Whether ranks must agree on a test that differs: by what it decides for the run, or by what is seen of it."""
    return matters(facts, test, guarded(facts)) or _is_seen(facts, test)


def _is_seen(facts: Facts, test: Event) -> bool:
    if not facts.shares_of_training(test.value) or form_tests.is_of_form(facts, test):
        return False
    if places_of(facts).of(test.module, test.node) is Place.MODEL:
        return False  # a forward pass has a part of a batch either way
    seen = _seen(facts)
    if seen.shown.get((test.node, test.here.frame.context), -1) > test.number or test.node in seen.chosen:
        return True
    function = test.module.scope(test.node)
    if any((function, name) in seen.names for name in _bound(test)):
        return True
    return test.node in seen.keeping and test.value.scale not in PER_SAMPLE  # else counted sample by sample


@dataclass(frozen=True)
class _Seen:
    shown: Guarded  # the last line that is shown or logged in an arm of a branch
    keeping: set[cst.CSTNode]  # branches with something in them that is kept
    chosen: set[cst.CSTNode | None]  # branches by which something was chosen that is shown or kept
    names: set[tuple[Scope, str]]  # under which numbers that are a rank's own are shown or kept, in a function


@answered_once
def _seen(facts: Facts) -> _Seen:
    lines = shown_lines(facts)
    shown = {(here.node, here.frame.context): event.number for event in lines for here in event.here.up() if here.arm}
    kept = [sink for sink in sinks(facts) if sink.kind is Sinks.STORED or (sink.kind in _KEPT and not sink.fresh)]
    kept = [one for one in kept if places_of(facts).of(one.module, one.node) is not Place.MODEL]
    kept = [one for one in kept if not _is_into_a_batch(facts, one.node)]
    places = [*((one.module, one.node) for one in kept), *takings(facts)]
    keeping: set[cst.CSTNode] = {
        around for module, node in places for around in module.enclosing(node) if isinstance(around, _BRANCHES)
    }
    seen = [*((event.module, event.node) for event in lines), *((one.module, one.value) for one in kept)]
    chosen = {site for _, node in seen for site in _choices(facts, node)}
    names = {
        (module.scope(node), one.value) for module, node in seen for one in tree.walk(node)
        if isinstance(one, cst.Name) and facts.value(one).scale is Scale.CONST
        and facts.shares_of_training(facts.value(one))
    }  # fmt: skip
    return _Seen(shown, keeping, chosen, names)


def _bound(test: Event) -> set[str]:
    """The names that get a value in an arm of a branch, or by a conditional expression."""
    within: cst.CSTNode | None = test.node if isinstance(test.node, _BRANCHES) else None
    if isinstance(test.node, cst.IfExp):
        around = test.module.enclosing(test.node)
        within = next((one for one in around if isinstance(one, cst.BaseSmallStatement)), None)
    given = tree.walk(within) if within is not None else ()
    given = (one for one in given if isinstance(one, (cst.Assign, cst.AugAssign)))
    return {name for one in given for target in tree.targets(one) for name in tree.target_names(target)}


def _is_into_a_batch(facts: Facts, node: cst.CSTNode) -> bool:
    """`out[i] += x[i]`: of each sample, and gone with it."""
    targets = tree.assigned(node)
    holders = [one.value for one in targets if isinstance(one, cst.Subscript)]
    return any(facts.value(one).scale in PER_SAMPLE for one in holders)


def _choices(facts: Facts, node: cst.CSTNode) -> Iterator[cst.CSTNode | None]:
    for one in tree.walk(node):
        value = facts.value(one) if isinstance(one, cst.BaseExpression) else NOTHING
        if facts.shares_of_training(value):
            yield from (source.site for source in value.sources if isinstance(source, Choice))
