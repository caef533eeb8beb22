"""What is printed, or logged on the screen, of training: means, and counts where all ranks come by."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions import form_tests
from distify_codemods.decisions.base import Averaging, Putting
from distify_codemods.decisions.differing import reached_alike, why_different
from distify_codemods.decisions.figures import holds_several, is_cut
from distify_codemods.decisions.log_records import shown_lines
from distify_codemods.decisions.places import Place, with_what_is_left_early
from distify_codemods.decisions.shown_whole import holds_own
from distify_codemods.decisions.views import beside_training
from distify_codemods.decisions.written_down import displays, is_read_again
from distify_codemods.events import Event
from distify_codemods.facts import Facts, dealt_by
from distify_codemods.origins import WORDED, Share
from distify_codemods.program import Module
from distify_codemods.scale import Scale
from distify_codemods.values import Value

_COUNTS = (Scale.SUM, Scale.COUNT)
#: What may stand for an object that is shown with all that it holds.
_WHOLE = (cst.Name, cst.Attribute, cst.Call)
#: Between numbers: of texts, the others put parts beside each other.
_OF_NUMBERS = (cst.Divide, cst.Multiply, cst.Subtract)


def shown(facts: Facts) -> Iterator[Averaging]:
    """Means are averaged; counts are added up, and divided as the script does where they themselves are printed, too.

    So are those that are divided by a number of the whole batch: of one rank's, the ratio would be as many times too
    small as there are.
    """
    begun = min((loop.event.number for loop in facts.training_loops), default=0)
    events = [one for one in shown_lines(facts) if one.number > begun]
    together = [
        one for one in events
        if reached_alike(facts, one) and _is_evaluated_by_all(facts, one.module, one.node)
    ]  # fmt: skip
    if together and (whole := beside_training(facts)):
        facts = facts.tried(whole=whole)  # what all ranks load whole is theirs alike
    for event in together:
        yield from _Line(facts, event).figures()


def stays(facts: Facts, event: Event, put_together: Collection[cst.CSTNode]) -> list[cst.BaseExpression]:
    """What is shown of one rank's samples once some figures have been put together over the ranks."""
    line = _Line(facts, event, put_together)
    line.look_at(event.node)
    return [*line.means, *line.counts, *line.others]


def _is_evaluated_by_all(facts: Facts, module: Module, node: cst.CSTNode) -> bool:
    """Not after a `continue` by which some ranks pass over it, nor once for each of a rank's own entries or batches."""
    around = module.enclosing(node)
    within = itertools.takewhile(lambda one: not isinstance(one, cst.BaseStatement), around)
    several = any(isinstance(one, (cst.BaseComp, cst.Lambda)) for one in within)
    places = with_what_is_left_early(facts)
    place = places.of(module, node)
    return not several and place not in (Place.UNSURE, Place.MODEL) and not places.may_be_shared_out(node)


def by_a_whole(facts: Facts, event: Event) -> Iterator[cst.BinaryOperation]:
    """`correct / batch_size`: sums over a rank's samples, divided by what is the same on all ranks."""
    for node in (*_ratios(event), *_made_before(event)):
        if isinstance(node.operator, (cst.Divide, cst.FloorDivide)) and facts.value(node.left).scale is Scale.SUM:
            own = why_different(facts, facts.value(node.left).sources)
            fixed = facts.value(node.right).scale is Scale.CONST
            if own and fixed and not why_different(facts, facts.value(node.right).sources):
                yield node


def _made_before(event: Event) -> Iterator[cst.BinaryOperation]:
    """`accuracy = correct / batch_size`, of which the name is printed."""
    for name in (node for node in tree.walk(event.node) if isinstance(node, cst.Name)):
        for binding in event.module.flow(name).reaching(name):
            target = event.module.parents.get(binding)
            made = event.module.parents.get(target) if isinstance(target, cst.AssignTarget) else None
            left = [made.value] if isinstance(made, cst.Assign) else []
            while left:  # through products and ratios: of anything else, the sum over the ranks may be another figure
                node = left.pop()
                if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Multiply, cst.Divide)):
                    yield node
                    left += [node.left, node.right]


def _ratios(event: Event) -> Iterator[cst.BinaryOperation]:
    return (node for node in tree.walk(event.node) if isinstance(node, cst.BinaryOperation))


class _Line:
    """What is shown at once, and is seen where it is written or, of texts and dictionaries, where they were made."""

    def __init__(self, facts: Facts, event: Event, put_together: Collection[cst.CSTNode] = ()) -> None:
        self.facts = facts
        self.done = {*facts.run.trial.averaged, *put_together}
        self.event, self.node = event, event.node
        self.means: list[cst.BaseExpression] = []
        self.counts: list[cst.BaseExpression] = []
        self.others: list[cst.BaseExpression] = []
        self._seen: set[tuple[cst.CSTNode, int, bool]] = set()  # one record may be reached in very many ways

    def figures(self) -> Iterator[Averaging]:
        self.look_at(self.node)
        why = "shown for the samples of all ranks"
        if self.others:
            why += f"; `{tree.code_of(self.others[0])}` beside it is that of rank 0's"
        counts = list(self.counts)
        for node in self.means:
            parts = self._counted(node) if self.counts else None
            if parts is None:
                yield Averaging(self.facts.module_of(node), node, why)
            else:
                counts += parts
        yield from (Averaging(self.facts.module_of(node), node, why, how=Putting.SUM) for node in counts)

    def look_at(self, node: cst.CSTNode, made: int = 0, means: bool = False) -> None:
        """The means, the counts and what else of one rank's samples is printed. `made`: through how many displays.
        `means`: counts are put together elsewhere."""
        if node in self.done or (node, made, means) in self._seen:
            return  # whatever it is made of
        self._seen.add((node, made, means))
        if isinstance(node, cst.FormattedStringExpression) and node.equal and self._differs(node.expression):
            self.others.append(node.expression)  # `{loss=}`: put together, it would have another name
        elif not isinstance(node, cst.BaseExpression) or node is self.node or not self._differs(node):
            self._look_inside(node, made, means)
            if (
                isinstance(node, _WHOLE)
                and not self._made(node, made)
                and holds_own(self.facts, self.facts.value(node))
            ):
                self.others.append(node)
        elif self.facts.value(node).scale is Scale.REDUCED or form_tests.asks_form(self.facts, node):
            return  # of all ranks; or a share has it in common with its batch
        elif self._is_mean(node):
            self.means.append(node)
        elif isinstance(node, cst.BaseComp) and (held := self._entries(node, made)):
            for one in held:
                self._look_behind(one, made, means)
        elif isinstance(node, tree.PERHAPS):
            self.others.append(node)
        elif self.facts.value(node).scale in _COUNTS and (parts := self._counted(node)):
            self.counts += () if means else parts
            self.others += parts if means else ()
        elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _OF_NUMBERS):
            self._look_at_both(node, made, means)
        elif self._made(node, made) or any(
            self._is_figure(one) or self._made(one, made) for part in _parts(node) for one in tree.walk(part)
        ):
            self._look_inside(node, made, means)
        elif self.facts.value(node).scale is not Scale.CONST or WORDED in self.facts.value(node).sources:
            self.others.append(node)

    def _look_inside(self, node: cst.CSTNode, made: int, means: bool) -> None:
        for child in _parts(node):
            self.look_at(child, made, means)
        for one in self._made(node, made):
            self._look_behind(one, made, means)

    def _look_at_both(self, node: cst.BinaryOperation, made: int, means: bool) -> None:
        """One side of a ratio over all ranks, and the other of one rank, would fit neither."""
        sides = _Line(self.facts, self.event, self.done)
        sides._look_inside(node, made, means)
        if sides.others and (sides.means or sides.counts):
            self.others.append(node)
        else:
            self._look_inside(node, made, means)

    def _look_behind(self, entry: cst.BaseExpression, made: int, means: bool) -> None:
        """At what was written down before: where not all ranks come by, it stays one rank's."""
        if _is_evaluated_by_all(self.facts, self.facts.module_of(entry), entry):
            self.look_at(entry, made + 1, means or is_read_again(self.facts, entry))
        elif entry not in self.done and any(self._is_figure(one) for one in tree.walk(entry)):
            self.others.append(entry)

    def _made(self, node: cst.CSTNode, made: int) -> list[cst.BaseExpression]:
        return list(displays(self.facts, node)) if made < 3 else []

    def _entries(self, node: cst.BaseComp, made: int) -> list[cst.BaseExpression]:
        """What is gone through, if nothing else is of one rank's: `round(value, 3) for value in figures.values()`."""
        over = node.for_in
        own = set(tree.target_names(over.target))
        others = [
            one for part in tree.children(node) if part is not over
            for one in tree.walk(part) if not (isinstance(one, cst.Name) and one.value in own) and self._is_figure(one)
            and not any(isinstance(inner, cst.Name) and inner.value in own for inner in tree.walk(one))
        ]  # fmt: skip
        if others or over.ifs or over.inner_for_in is not None:
            return []
        return [entry for one in tree.walk(over.iter) for entry in self._made(one, made)]

    def _counted(self, node: cst.CSTNode) -> list[cst.BaseExpression] | None:
        """The smallest counts that a figure is made of; None where something else of one rank goes into it."""
        if isinstance(node, tree.PERHAPS):
            return None
        inside = [self._counted(one) for one in _parts(node)]
        found = [part for one in inside for part in one or ()]
        if not isinstance(node, cst.BaseExpression) or not self._differs(node):
            return None if None in inside else found
        if found and None not in inside:
            return found
        value = self.facts.value(node)
        is_one = value.scale in _COUNTS and not holds_several(value) and not self._may_be_of_all(value)
        return [node] if is_one else None

    def _is_mean(self, node: cst.BaseExpression) -> bool:
        value = self.facts.value(node)
        plain = WORDED not in value.sources and not holds_several(value)
        return value.scale is Scale.MEAN and plain and not is_cut(self.facts, node)

    def _may_be_of_all(self, value: Value) -> bool:
        """Whether it may be another loader's, too, as after a loop over that: if each rank goes through all of its
        batches, a sum over the ranks would be as many times too large as there are."""
        of = dealt_by(value.sources)
        return any(one not in self.facts.training_loaders and not isinstance(one, Share) for one in of)

    def _is_figure(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.BaseExpression) and self._differs(node)

    def _differs(self, node: cst.BaseExpression) -> bool:
        """By a rank's samples of training; what chance or the time has to do with may be of all ranks' samples."""
        return bool(self.facts.shares_of_training(self.facts.value(node)))


def _parts(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Of a call, what its method is of and what it is given; `self.hits` is one thing."""
    if isinstance(node, cst.Call):
        of = [node.func.value] if isinstance(node.func, cst.Attribute) else []
        return [*of, *node.args]
    if isinstance(node, cst.CompFor):
        return [one for one in tree.children(node) if one is not node.target]
    if isinstance(node, cst.Subscript):
        return [node.value]  # at places of one rank's own entries
    return [] if isinstance(node, cst.Attribute) else tree.children(node)
