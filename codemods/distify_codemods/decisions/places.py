"""Where code runs: in a turn of a training loop, around it, or where not every rank may come."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import cached_property

import libcst as cst

from distify_codemods.allocation import Turn
from distify_codemods.answers import answered_once
from distify_codemods.decisions.base import Reduction
from distify_codemods.decisions.differing import why_different
from distify_codemods.decisions.evaluation import sums
from distify_codemods.events import Here, Kind
from distify_codemods.facts import BatchLoop, Facts
from distify_codemods.inside import core
from distify_codemods.libraries import torch_nn
from distify_codemods.objects import Instance
from distify_codemods.program import Module

_FUNCTIONS = (cst.FunctionDef, cst.Lambda, cst.Module)


class Place(Enum):
    INSIDE = "in a turn of a training loop"
    AROUND = "in a function around a training loop"
    MODEL = "in the forward pass of a module"
    ELSEWHERE = "elsewhere"
    UNSURE = "where one rank may come and another may not"


class Places:
    """`early`: whether what one rank may leave earlier than another counts as such, which may yet be agreed on."""

    def __init__(self, facts: Facts, early: bool = False) -> None:
        self.facts = facts
        self.batch_loops = {loop.node for loop in facts.loops}
        self.parting = set(self._parting())
        self.skipped = set(self._skipped()) if early else set()
        self.unsure: set[cst.CSTNode] = set()
        training, evaluating = facts.training_loops, facts.evaluation_loops
        self.training_loops = {loop.node for loop in training}
        self.evaluation_loops = {loop.node for loop in evaluating}
        self.called_in_training = self._called(training)
        self.called_in_evaluation = self._called(evaluating)
        self.summed = [loop for loop in evaluating if isinstance(sums(facts, loop), Reduction)]
        self.called_in_summed = self._called(self.summed)
        self.around = _around(training)
        self.around_evaluation = _around(evaluating)
        self.training_calls = set(self._training_calls())
        self.in_models = set(self._in_models())

    def of(self, module: Module, node: cst.CSTNode) -> Place:
        inside = False
        around = module.enclosing(node)
        for part, holder in zip((node, *around), around, strict=False):
            if holder in self.skipped:
                return Place.UNSURE
            if isinstance(holder, _FUNCTIONS):
                break
            if self._lets_some_come(holder, part) or isinstance(holder, (cst.ExceptHandler, cst.Finally)):
                return Place.UNSURE
            inside = inside or holder in self.training_loops
        if holder in self.in_models:
            return Place.MODEL
        if holder in self.unsure:
            return Place.UNSURE
        if inside or holder in self.called_in_training:
            return Place.INSIDE
        return Place.AROUND if holder in self.around else Place.ELSEWHERE

    def _lets_some_come(self, holder: cst.CSTNode, part: cst.CSTNode) -> bool:
        """Whether some ranks do not come to a part of a branch, a loop, or what follows an `and`."""
        if isinstance(holder, cst.BooleanOperation):
            return part is holder.right and self._differs(holder.left)
        asks = isinstance(holder, (cst.If, cst.IfExp)) and part is holder.test  # all do, to go on in different ways
        return holder in self.parting and not asks

    def is_shallow(self, module: Module, node: cst.CSTNode) -> bool:
        """Whether it stands in a function with a training loop of its own, or around one."""
        return module.function(node) in self.around

    def depth(self, module: Module, node: cst.CSTNode) -> int:
        """How many calls lead to its function, where they are most."""
        return self._depths.get(module.function(node), 0)

    @cached_property
    def _depths(self) -> dict[cst.CSTNode, int]:
        frames = {event.here.frame for event in self.facts.run.events}
        found: dict[cst.CSTNode, int] = {}
        for frame in frames:
            calls = sum(not isinstance(step, Turn) for step in frame.context)
            found[frame.node] = max(calls, found.get(frame.node, 0))
        return found

    def may_be_shared_out(self, node: cst.CSTNode) -> bool:
        """Whether evaluations come here of which each rank has batches of its own, one more than another."""
        module = self.facts.module_of(node)
        around = module.enclosing(node)
        return module.function(node) in self.called_in_summed or any(loop.node in around for loop in self.summed)

    def evaluates(self, node: cst.CSTNode) -> bool:
        """Whether evaluations come here, too."""
        module = self.facts.module_of(node)
        around = module.enclosing(node)
        holder = module.function(node)
        shared = holder in self.called_in_evaluation or any(one in self.evaluation_loops for one in around)
        runs_both = holder in self.around_evaluation and not isinstance(holder, cst.Module)
        return shared or (runs_both and holder in self._of_both)

    @property
    def _of_both(self) -> set[cst.CSTNode]:
        """Functions whose one loop trains in one call and evaluates in another."""
        both = self.training_loops & self.evaluation_loops
        return {loop.module.function(loop.node) for loop in self.facts.loops if loop.node in both}

    def may_train(self, node: cst.CSTNode) -> bool:
        """Whether a call takes a step of training, or runs a model."""
        return node in self.training_calls

    # ---- found in the run

    def _parting(self) -> Iterable[cst.CSTNode]:
        """Branches and loops that one rank may take otherwise than another."""
        facts = self.facts
        for event in facts.of_kind(Kind.TEST):
            if why_different(facts, event.value.sources):
                yield event.node
        for event in facts.of_kind(Kind.LOOP):
            node = event.node
            if isinstance(node, cst.For) and node not in self.batch_loops and self._differs(node.iter):
                yield node

    def _differs(self, node: cst.BaseExpression) -> bool:
        return bool(why_different(self.facts, self.facts.value(node).sources))

    def _skipped(self) -> Iterable[cst.CSTNode]:
        """Loops and functions that one rank may leave earlier than another."""
        for event in self.facts.of_kind(Kind.LEAVE):
            kinds = (cst.For, cst.While) if event.name in ("break", "continue") else _FUNCTIONS
            arms = [here for here in event.here.up() if here.arm and here.frame is event.here.frame]
            if any(here.node in self.parting for here in arms):
                yield next(one for one in event.module.enclosing(event.node) if isinstance(one, kinds))

    def _called(self, loops: list[BatchLoop]) -> set[cst.CSTNode]:
        """The functions that run in the turns of loops; notes those that not every rank may come to."""
        heads = {(loop.node, loop.event.here.frame.context) for loop in loops}
        found: set[cst.CSTNode] = set()
        done: dict[Here, set[cst.CSTNode]] = {}  # what is known to be called from a place, and all around that
        for event in self.facts.run.events:
            below: set[cst.CSTNode] = set()
            for here in event.here.up():
                known = done.get(here)
                if known is not None and below <= known:
                    break
                done[here] = below | known if known else below.copy()
                if here.arm == "body" and (here.node, here.parent_context) in heads:
                    found.update(one for one in below if one is not here.frame.node)
                    break
                if here.arm and (here.node in self.parting or here.node in self.skipped):
                    self.unsure.update(one for one in below if one is not here.frame.node)
                below.add(here.frame.node)
        return found

    def _training_calls(self) -> Iterable[object]:
        facts = self.facts
        for event in (*facts.backwards, *facts.steps, *(one.event for one in facts.loops), *facts.forwards):
            yield from event.here.frame.context

    def _in_models(self) -> Iterable[cst.CSTNode]:
        forwards = {
            event.node
            for event in self.facts.of_kind(Kind.FORWARD)
            if any(
                isinstance(obj, Instance) and obj.of is not None and obj.of.derives_from(torch_nn.MODULE)
                for obj in map(core, event.receiver.objs)
            )
        }
        for event in self.facts.run.events:
            if not forwards.isdisjoint(event.here.frame.context):
                for here in event.here.up():
                    if forwards.isdisjoint(here.frame.context):
                        break
                    yield here.frame.node


def _around(loops: list[BatchLoop]) -> set[cst.CSTNode]:
    return {here.frame.node for loop in loops for here in loop.event.here.up()}


@answered_once
def places_of(facts: Facts) -> Places:
    return Places(facts)


@answered_once
def with_what_is_left_early(facts: Facts) -> Places:
    return Places(facts, early=True)
