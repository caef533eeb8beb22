"""What is counted in a loop within a turn of training, whose own turns go through the samples of the batch."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.facts import BatchLoop, Facts
from distify_codemods.interpreter.pairing import gives_samples, goes_through_a_tensor
from distify_codemods.objects import Function, Mapping, Sequence
from distify_codemods.origins import Counter
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE, Scale

#: What may leave a loop early, or go round it more often than there are samples.
_OTHER_WAYS = (cst.Break, cst.Return, cst.While, cst.Try, cst.Raise, cst.Match, cst.Yield, cst.Await, cst.NamedExpr)


def is_a_sum_over_samples(facts: Facts, loop: BatchLoop, update: cst.AugAssign) -> bool:
    """`for p, t in zip(predicted, labels): if p == t: right += 1`: each turn looks at its own sample alone."""
    around = []
    for one in loop.module.enclosing(update):
        if one is loop.node:
            break
        around.append(one)
    fors = [one for one in around if isinstance(one, cst.For)]
    if not fors or not isinstance(update.operator, cst.AddAssign):
        return False
    outermost = fors[-1]
    within = around[around.index(outermost) + 1 :]
    plain = all(isinstance(one, (cst.IndentedBlock, cst.SimpleStatementLine, cst.With)) for one in within)
    turns = _Turns(facts, loop.module, outermost)
    return plain and outermost.orelse is None and turns.go_through_samples() and turns.look_at_their_own(update.value)


@dataclass(eq=False)
class _Turns:
    facts: Facts
    module: Module
    loop: cst.For

    def go_through_samples(self) -> bool:
        over = self.facts.value(self.loop.iter)
        parts = list(tree.walk(self.loop.body))
        if any(isinstance(one, _OTHER_WAYS) for one in parts):
            return False
        tests = [one.test for one in parts if isinstance(one, (cst.If, cst.IfExp))]
        within = [one.iter for one in parts if isinstance(one, cst.For)]  # through all samples: then these are pairs
        if not all(map(self.look_at_their_own, (*tests, *within))):
            return False
        told = goes_through_a_tensor(over) or any(isinstance(one, cst.Comparison) for one in tests)
        return told and (goes_through_a_tensor(over) or gives_samples(over))

    def look_at_their_own(self, node: cst.CSTNode, seen: frozenset[str] = frozenset()) -> bool:
        """Whether it is made of the turn's own sample, and of what no sample has to do with."""
        if isinstance(node, cst.Subscript) and self._picks_its_own(node):
            return True
        if isinstance(node, (cst.Lambda, cst.BaseComp)):
            return False
        if isinstance(node, (cst.Attribute, cst.Arg)):
            return self.look_at_their_own(node.value, seen)
        if isinstance(node, cst.Name):
            return self._is_of_the_turn(node, seen)
        return all(self.look_at_their_own(one, seen) for one in tree.children(node))

    def _picks_its_own(self, node: cst.Subscript) -> bool:
        """`labels[i]`"""
        only = node.slice[0].slice if len(node.slice) == 1 else None
        index = only.value if isinstance(only, cst.Index) else None
        of_samples = self.facts.value(node.value).scale in PER_SAMPLE
        return of_samples and isinstance(index, cst.Name) and index.value in self.targets

    @property
    def targets(self) -> set[str]:
        return set(tree.target_names(self.loop.target))

    def _is_of_the_turn(self, node: cst.Name, seen: frozenset[str]) -> bool:
        value = self.facts.value(node)
        if node.value in seen or any(isinstance(obj, (Counter, Function)) for obj in value.objs):
            return False  # of the turn before, perhaps; a place in the batch; what may remember other samples
        bound = [one for one in tree.walk(self.loop.body) if node.value in tree.bound_names(one)]
        if bound:
            if self.module.flow(self.loop).carried(self.loop, node.value):
                return False
            made = [self._maker(one) for one in bound]
            return all(one is not None and self.look_at_their_own(one, seen | {node.value}) for one in made)
        if node.value in self.targets:
            return True
        if value.scale is not Scale.CONST or self._is_changed(node.value):
            return False
        held = [obj for obj in value.objs if isinstance(obj, (Sequence, Mapping))]
        return all(obj.any().scale is Scale.CONST for obj in held)

    def _maker(self, bound: cst.CSTNode) -> cst.BaseExpression | None:
        """What a name is bound to, or to each part of."""
        if isinstance(bound, cst.For):
            return bound.iter
        given = self.module.parents.get(bound)
        return given.value if isinstance(given, cst.Assign) else None

    def _is_changed(self, name: str) -> bool:
        """`seen.add(p)`"""
        calls = (one.value for one in tree.walk(self.loop.body) if isinstance(one, cst.Expr))
        owners = [one.func.value for one in calls if isinstance(one, cst.Call) and isinstance(one.func, cst.Attribute)]
        owners += [
            target.value for one in tree.walk(self.loop.body) if isinstance(one, (cst.Assign, cst.AugAssign))
            for target in tree.targets(one) if isinstance(target, (cst.Subscript, cst.Attribute))
        ]  # fmt: skip
        return any(isinstance(one, cst.Name) and one.value == name for part in owners for one in tree.walk(part))
