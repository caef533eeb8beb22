"""Decisions and figures that would differ from rank to rank: what they hang on is averaged where that is a mean.

A test on the training loss, say, is taken by every rank on its own share of the batch. The mean over equal shares is
the figure of before, so that all ranks decide alike, and as one process would.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions import entropy, one_number, own_ways
from distify_codemods.decisions.base import Averaging, Putting
from distify_codemods.decisions.carried import chosen_by
from distify_codemods.decisions.differing import (
    differs,
    entries,
    guarded,
    is_of_an_evaluation,
    matters,
    of_batches,
    of_own_batches,
    rate_differs,
    reached_alike,
    why_different,
)
from distify_codemods.decisions.marks import with_evidence
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, dealt_by
from distify_codemods.libraries import python, truths
from distify_codemods.objects import Sequence
from distify_codemods.origins import CHANCE, PIECE, Answer, Choice, Row, Single, Verdict
from distify_codemods.program import Module
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import Value

_ASKED = {truths.ANY: Putting.ANY, truths.ALL: Putting.ALL}
_BY_SAMPLES = "all ranks decide by the samples of the global batch"
_ORDERS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
_Test = tuple[Event, cst.If | cst.While | cst.IfExp | cst.CompIf]


def averages(facts: Facts) -> tuple[Averaging, ...]:
    """The figures behind decisions that differ, where the mean over the ranks is what one process would have."""
    found: dict[cst.CSTNode, Averaging] = {}
    for module, node in one_number.in_training(facts):
        found[node] = Averaging(module, node, "one number for the whole batch: rank 0's", told=True)
    if found:
        return tuple(found.values())  # what hangs on them is asked when they are alike
    for one in _of_tests(facts):
        found[one.node] = one
    for module, node in _steering(facts):
        found.setdefault(node, Averaging(module, node, "training depends on it: rank 0's", told=True))
    for module, node in one_number.compared(facts):
        found.setdefault(node, Averaging(module, node, "rank 0 decides for all", told=True))
    for event in facts.of_kind(Kind.METHOD):
        argument = _of_scheduler(event)
        if not rate_differs(facts, event) or argument is None:
            continue
        why = "all ranks set their rate by the same figure"
        if _is_mean_given(facts, event):
            found[argument] = Averaging(event.module, argument, why)
        elif is_of_an_evaluation(facts, argument) and reached_alike(facts, event):
            found[argument] = Averaging(event.module, argument, f"{why}: rank 0's", told=True)
    return tuple(found.values())


def _of_tests(facts: Facts) -> Iterator[Averaging]:
    """The figures that decide what all ranks have to decide alike."""
    figures = _Figures(facts)
    tests = [
        (event, event.node)
        for event in facts.of_kind(Kind.TEST)
        if isinstance(event.node, (cst.If, cst.While, cst.IfExp, cst.CompIf)) and differs(facts, event)
    ]
    choosing = chosen_by(facts)
    decisive = _with_what_chose(tests, [
        (event, node) for event, node in tests
        if own_ways.decides(facts, event) or (node in choosing and figures.behind(node.test) is not None)
    ])  # fmt: skip
    rates = any(
        rate_differs(facts, event) and (event.kind is Kind.STORE or not _is_mean_given(facts, event))
        for event in facts.of_kind(Kind.METHOD, Kind.STORE)
    )
    if rates or any(figures.behind(node.test) is None for event, node in decisive):
        decisive = tests  # what it hangs on was itself decided: by a counter of good turns, say
    drawn = [
        (event, node) for event, node in tests
        if CHANCE in event.value.sources and not dealt_by(event.value.sources) and facts.in_training(event)
    ]  # fmt: skip
    told: list[tuple[cst.CSTNode, Averaging]] = []
    for event, branch in dict.fromkeys([*decisive, *drawn]):
        for_each = any(isinstance(one, cst.BaseComp) for one in event.module.enclosing(branch))
        if for_each and not matters(facts, event, guarded(facts)):
            continue  # what is seen of it is asked once for each entry
        for figure in figures.behind(branch.test) or ():
            if (how := figures.of_samples(figure)) is not None:
                if reached_alike(facts, event):
                    yield Averaging(event.module, figure, _BY_SAMPLES, how=how)
            elif facts.value(figure).scale is Scale.MEAN and not _asks_whether_there(facts, event.module, figure):
                yield Averaging(event.module, figure, _why_averaged(facts, figure))
            elif reached_alike(facts, event) and not _is_about_a_draw(facts, event, figure):
                told.append((branch, Averaging(event.module, figure, "rank 0 decides for all", told=True)))
    yield from _but_what_follows(facts, told)


def _but_what_follows(facts: Facts, told: list[tuple[cst.CSTNode, Averaging]]) -> list[Averaging]:
    """Without those of evaluations that hang on what another of the tests decides: they may be alike once that is."""
    first = [
        one for branch, one in told
        if not is_of_an_evaluation(facts, one.node)
        or not any(
            isinstance(source, Choice) and source.site is not branch and any(source.site is other for other, _ in told)
            for source in facts.value(one.node).sources
        )
    ]  # fmt: skip
    return first or [one for _, one in told]


def _with_what_chose(tests: list[_Test], decisive: list[_Test]) -> list[_Test]:
    """Also the tests that chose what these compare: `if loss > 3 * best`, and `if loss < best: best = loss` before."""
    found = dict.fromkeys(decisive)
    left = list(found)
    while left:
        event, _ = left.pop()
        sites = {source.site for source in event.value.sources if isinstance(source, Choice)}
        more = [one for one in tests if one[1] in sites and one not in found]
        found.update(dict.fromkeys(more))
        left += more
    return list(found)


def _asks_whether_there(facts: Facts, module: Module, figure: cst.BaseExpression) -> bool:
    """`if best and loss < best`, where it begins as None: of that there is no mean, and rank 0's word is enough."""
    around = module.parents[figure]
    alone = not isinstance(around, (cst.Comparison, cst.ComparisonTarget, cst.Arg, cst.Attribute))
    return alone and facts.value(figure).may_be_none


def _why_averaged(facts: Facts, figure: cst.BaseExpression) -> str:
    value = facts.value(figure)
    if not of_own_batches(facts, value.sources | entries(value)):
        return "all ranks decide on the mean of theirs, since it may hang on random numbers or the time"
    return "all ranks decide on the mean over the global batch"


def _is_about_a_draw(facts: Facts, event: Event, figure: cst.BaseExpression) -> bool:
    """`while taken[j]`: whether rank 0 would judge what it has drawn itself, and others go on with what they have."""
    if facts.run.trial.draws_alike:
        return False
    for node in tree.walk(figure):
        if not isinstance(node, (cst.Name, cst.Attribute)) or CHANCE not in facts.value(node).sources:
            continue
        if of_batches(facts.value(node).sources):
            continue  # a figure of an evaluation: summed over the ranks, or made whole by draws that are alike
        code, parents = tree.code_of(node), event.module.parents
        if isinstance(node, cst.Attribute) and not isinstance(parents.get(node), cst.Call):
            return True
        others = [one for one in tree.walk(event.here.frame.node) if isinstance(one, cst.Name) and one.value == code]
        targets = [one for one in others if isinstance(parents.get(one), (cst.AssignTarget, cst.AugAssign))]
        if len(others) - len(targets) > 1:
            return True
    return False


class _Figures:
    """What must be averaged so that an expression no longer differs from rank to rank."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.checks = {event.node for event in facts.calls(*truths.CHECKS_OF_NUMBERS)}
        self.asking = {event.node: truths.OF_ALL_ENTRIES[event.name] for event in facts.calls(*truths.OF_ALL_ENTRIES)}

    def behind(
        self, node: cst.BaseExpression, seen: frozenset[cst.CSTNode] = frozenset()
    ) -> list[cst.BaseExpression] | None:
        """The means that it is decided by; None where something else of one rank goes into it."""
        value = self.facts.value(node)
        if (
            node in seen
            or self._is_whether_there(node)
            or not why_different(self.facts, value.sources | entries(value))
        ):
            return []
        judged = any(isinstance(obj, Verdict) for obj in value.objs)
        if value.scale is Scale.MEAN and not judged and node not in self.checks:
            return [node]
        if self.of_samples(node) is not None:
            return [node]
        found = self._of_parts(node, value, seen)
        tells = judged or isinstance(node, cst.Comparison) or node in self.checks
        if found is None and tells and is_of_an_evaluation(self.facts, node):
            return [node]  # by what was drawn for that
        return found

    def of_samples(self, node: cst.BaseExpression) -> Putting | None:
        """`torch.isnan(outputs).any()`, `torch.all(mask)`: what ranks say of theirs says it of all."""
        if not isinstance(node, cst.Call):
            return None
        asked, of = self.asking.get(node), node.args[0].value if len(node.args) == 1 else None
        if asked is None and isinstance(node.func, cst.Attribute) and not node.args:
            asked, of = node.func.attr.value, node.func.value
        how = _ASKED.get(asked or "")
        return how if how is not None and of is not None and self._are_all_samples(of) else None

    def _are_all_samples(self, node: cst.BaseExpression) -> bool:
        value = self.facts.value(node)
        if value.objs or value.scale not in PER_SAMPLE:
            return False
        some = with_evidence(self.facts).value(node).sources
        return PIECE not in some and not any(isinstance(one, (Row, Single)) for one in some)

    def _of_parts(
        self, node: cst.BaseExpression, value: Value, seen: frozenset[cst.CSTNode]
    ) -> list[cst.BaseExpression] | None:
        if not of_batches(value.sources | entries(value)) and not isinstance(node, cst.BooleanOperation):
            return [node]  # by the time, or by chance
        parts = self._parts(node, value)
        if parts is None:
            return None
        found = [self.behind(part, seen | {node}) for part in parts]
        if any(one is None for one in found):
            return None
        return [figure for one in found for figure in one or ()]

    def _is_whether_there(self, node: cst.BaseExpression) -> bool:
        """`best is None`: of a mean, which is there on all ranks or on none of them; an entry of a batch may not be."""
        if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
            return False
        asks = isinstance(node.comparisons[0].operator, (cst.Is, cst.IsNot))
        none = tree.code_of(node.comparisons[0].comparator) == "None"
        return asks and none and self.facts.value(node.left).scale is Scale.MEAN

    def _parts(self, node: cst.BaseExpression, value: Value) -> list[cst.BaseExpression] | None:
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            return [node.expression]
        if isinstance(node, cst.BooleanOperation):
            return [node.left, node.right]
        if isinstance(node, cst.Comparison):
            ordered = all(isinstance(one.operator, _ORDERS) for one in node.comparisons)
            return [node.left, *(one.comparator for one in node.comparisons)] if ordered or _is_nan(node) else None
        if isinstance(node, cst.Call) and node in self.checks and node.args:
            return [node.args[0].value]
        verdicts = [obj.site for obj in value.objs if isinstance(obj, Verdict)]
        if isinstance(node, cst.Call):
            if node in verdicts:  # `torch.gt(loss, 3)`, `loss.gt(3)`
                of = [node.func.value] if isinstance(node.func, cst.Attribute) else []
                return [*of, *(argument.value for argument in node.args)]
            checked = _unpacked(node)
            return checked or [site for site in verdicts if isinstance(site, cst.BaseExpression)] or None
        return [site for site in verdicts if isinstance(site, cst.BaseExpression)] or self._kept(value)

    def _kept(self, value: Value) -> list[cst.BaseExpression] | None:
        """What a list of figures is made of: all that is appended to it."""
        lists = {obj for obj in value.objs if isinstance(obj, Sequence)}
        added = [
            node.args[0].value
            for node in self.facts.run.values
            if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and len(node.args) == 1
            and node.func.attr.value == "append" and lists & self.facts.value(node.func.value).objs
        ]  # fmt: skip
        return added or None


def _steering(facts: Facts) -> Iterator[tuple[Module, cst.BaseExpression]]:
    """The time, or a figure of the machine, of which a loss or a rate is made."""
    marks = {source for value in _trained_by(facts) for source in value.sources if isinstance(source, Answer)}
    for event in facts.of_kind(Kind.CALL, Kind.METHOD, Kind.ATTRIBUTE) if marks else ():
        if any(mark.site is event.node for mark in marks) and reached_alike(facts, event):
            node = entropy.whole(event.module, event.node)
            if node not in facts.run.trial.averaged and not _is_open(event, node):
                yield event.module, node


def _trained_by(facts: Facts) -> list[Value]:
    rates = [event.value for event in facts.of_kind(Kind.STORE) if rate_differs(facts, event)]
    rates += [event.arguments.positional[0] for event in facts.of_kind(Kind.METHOD) if rate_differs(facts, event)]
    return [*(event.receiver for event in facts.backwards), *rates]


def _is_open(event: Event, node: cst.CSTNode) -> bool:
    """`os.popen("date")`: what is still to be read cannot be sent on."""
    return event.name == python.ANSWERS_LATER and node is event.node


def _is_nan(node: cst.Comparison) -> bool:
    """`loss != loss`."""
    return len(node.comparisons) == 1 and node.left.deep_equals(node.comparisons[0].comparator)


def _unpacked(node: cst.Call) -> list[cst.BaseExpression]:
    """`torch.isnan(loss).any()`: the truth of one number, whatever it is wrapped in."""
    if node.args or not isinstance(node.func, cst.Attribute):
        return []
    return [node.func.value] if node.func.attr.value in ("any", "all", "item") else []


def _is_mean(facts: Facts, node: cst.BaseExpression) -> bool:
    return facts.value(node).scale in (Scale.MEAN, Scale.REDUCED)


def _of_scheduler(event: Event) -> cst.BaseExpression | None:
    return event.node.args[0].value if isinstance(event.node, cst.Call) and event.node.args else None


def _is_mean_given(facts: Facts, event: Event) -> bool:
    argument = _of_scheduler(event)
    return argument is not None and _is_mean(facts, argument)
