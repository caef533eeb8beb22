"""Tests of the script's own that let rank 0 alone come: of the rank's number, or by a function that says it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Ref
from distify_codemods.answers import answered_once
from distify_codemods.facts import Facts
from distify_codemods.interpreter.ranks import RANK
from distify_codemods.libraries import distributed, runtime
from distify_codemods.objects import Bound, Function
from distify_codemods.program import Module

_DEEPEST = 4  # names and functions that a test goes through
_FIRST = frozenset({0, -1, None})  # -1 and None: what scripts have in place of a number where there is one process
_IS_FIRST = {cst.Equal: True, cst.Is: True, cst.NotEqual: False, cst.IsNot: False, cst.In: True, cst.NotIn: False}
_IS_BELOW = {cst.LessThan: (True, 1), cst.LessThanEqual: (True, 0), cst.GreaterThan: (False, 0)}


def lets_one_come(facts: Facts, module: Module, node: cst.CSTNode) -> bool:
    """Whether a test around a node, in its function, lets rank 0 alone come there (of each machine, if that is asked).

    Also in a function that is handed to the runtime, for rank 0 to call.
    """
    around = module.enclosing(node)
    for inner, outer in zip((node, *around), around, strict=False):
        if isinstance(outer, (cst.FunctionDef, cst.Lambda)):
            return outer in handed_to_rank_0(facts)
        tests = Tests(facts, module)
        tested, outcome = _decided(outer, inner)
        if tested is not None and tests.is_first(tested, outcome):
            return True
    return False


def _decided(outer: cst.CSTNode, inner: cst.CSTNode) -> tuple[cst.BaseExpression | None, bool]:
    """The test that lets a part of a statement or an expression come, and how it has to come out."""
    if isinstance(outer, (cst.If, cst.IfExp)) and inner is not outer.test:
        return outer.test, inner is outer.body
    if isinstance(outer, cst.BooleanOperation) and inner is outer.right:
        return outer.left, isinstance(outer.operator, cst.And)
    return None, True


def is_the_runtimes(facts: Facts, module: Module, node: cst.CSTNode) -> bool:
    """Whether that is certain, however ranks are started: the runtime's own word was asked, or it is called here."""
    if isinstance(node, cst.Call) and _is_called(facts, node, runtime.OPENED_BY_RANK_0):
        return True
    around = module.enclosing(node)
    for inner, outer in zip((node, *around), around, strict=False):
        if isinstance(outer, cst.FunctionDef):
            return outer in handed_to_rank_0(facts)
        if isinstance(outer, cst.If) and inner is outer.body and _is_called(facts, outer.test, runtime.IS_FIRST):
            return True
    return False


@answered_once
def handed_to_rank_0(facts: Facts) -> set[cst.CSTNode]:
    """The functions that the script has rank 0 call by the runtime's means, for all ranks."""
    called = [one.arguments.get("function", 0) for one in facts.calls(runtime.CALLED_BY_RANK_0)]
    objs = [obj for given in called if given is not None for obj in given.objs]
    functions = [obj.function if isinstance(obj, Bound) else obj for obj in objs]
    return {one.node for one in functions if isinstance(one, Function) and one.node is not None}


def _is_called(facts: Facts, node: cst.CSTNode, name: str) -> bool:
    if not isinstance(node, cst.Call):
        return False
    objs = facts.value(node.func).objs
    return bool(objs) and all(isinstance(obj, Ref) and obj.name == name for obj in objs)


class Tests:
    """What the tests of one file say of the rank."""

    def __init__(self, facts: Facts, module: Module, depth: int = 0) -> None:
        self.facts = facts
        self.module = module
        self.depth = depth

    def is_first(self, test: cst.CSTNode, outcome: bool = True) -> bool:
        """Whether the test comes out so on the first rank alone."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return self.is_first(test.expression, not outcome)
        if isinstance(test, cst.BooleanOperation):
            return self._of_both(test, outcome)
        if isinstance(test, cst.Comparison):
            return len(test.comparisons) == 1 and self._compares(test.left, test.comparisons[0], outcome)
        if isinstance(test, cst.Name) and (given := self._given(test)):
            return all(self._next().is_first(one, outcome) for one in given)
        if isinstance(test, cst.Call) and outcome and (functions := self._functions(test)):
            return all(map(self._answers, functions))
        if _is_called(self.facts, test, runtime.IS_FIRST):
            return outcome
        return not outcome and self._is_number(test)  # `if not rank:`

    def _next(self) -> Tests:
        return Tests(self.facts, self.module, self.depth + 1)

    def _of_both(self, test: cst.BooleanOperation, outcome: bool) -> bool:
        parts = (test.left, test.right)
        found = [self.is_first(part, outcome) for part in parts]
        if isinstance(test.operator, cst.And) is outcome:
            return any(found)
        alone = [is_first or self._says_alone(part, outcome) for part, is_first in zip(parts, found, strict=True)]
        return any(found) and all(alone)

    def _compares(self, left: cst.BaseExpression, target: cst.ComparisonTarget, outcome: bool) -> bool:
        operator, right = target.operator, target.comparator
        if not self._is_number(left):
            if not (self._is_number(right) and isinstance(operator, (cst.Equal, cst.NotEqual))):
                return False
            left, right = right, left
        for kind, (below, last) in _IS_BELOW.items():
            if isinstance(operator, kind):
                return below is outcome and self._constant(right) == last
        means = next((first for kind, first in _IS_FIRST.items() if isinstance(operator, kind)), None)
        if isinstance(operator, (cst.In, cst.NotIn)):
            listed = right.elements if isinstance(right, (cst.Tuple, cst.List, cst.Set)) else ()
            numbers = [self._constant(one.value) for one in listed]
            return means is outcome and 0 in numbers and all(one in _FIRST for one in numbers)
        return means is outcome and self._constant(right) == 0

    def _constant(self, node: cst.BaseExpression) -> object:
        """The literal that a test compares with; "" for anything else."""
        value = self.facts.value(node)
        constant = value.constant()
        if constant is None:
            return None if value.is_none else ""
        return int(constant) if isinstance(constant, str) and constant.isdecimal() else constant

    def _is_number(self, node: cst.CSTNode) -> bool:
        """Whether it is the rank's number, and no answer to a question about it."""
        if isinstance(node, cst.Name) and (given := self._given(node)):
            return all(map(self._next()._is_number, given))
        if isinstance(node, (cst.Comparison, cst.BooleanOperation, cst.UnaryOperation, cst.BinaryOperation)):
            return False
        if isinstance(node, cst.Call) and (functions := self._functions(node)):
            results = [one for function in functions for one in _results(function)]
            return bool(results) and all(
                isinstance(self.facts.value(one).single(), Const) or self._next()._is_number(one) for one in results
            ) and any(self.facts.value(one).sources & RANK for one in results)  # fmt: skip
        return bool(self.facts.value(node).sources & RANK) and not _is_called(self.facts, node, runtime.IS_FIRST)

    def _says_alone(self, test: cst.CSTNode, outcome: bool) -> bool:
        """Whether there is one process where a test comes out so: `not dist.is_initialized()`, `world_size == 1`."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return self._says_alone(test.expression, not outcome)
        if isinstance(test, cst.BooleanOperation):
            return all(self._says_alone(part, outcome) for part in (test.left, test.right))
        if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
            operator, right = test.comparisons[0].operator, self._constant(test.comparisons[0].comparator)
            means = next((same for kind, same in _IS_FIRST.items() if isinstance(operator, kind)), None)
            sources = self.facts.value(test.left).sources
            return means is outcome and (
                ("ranks" in sources and right == 1) or bool(sources & RANK and right in _FIRST)
            )
        return not outcome and any(_is_called(self.facts, test, name) for name in distributed.THERE_IS_A_GROUP)

    def _given(self, name: cst.Name) -> list[cst.BaseExpression]:
        """What a name was given, where all of that is seen in this function or at the top of the file."""
        if self.depth > _DEEPEST:
            return []
        places = self.module.flow(name).reaching(name) or self.module.bindings.get(name.value, [])
        found = [_assigned(self.module, place) for place in places]
        return [one for one in found if one is not None] if all(found) else []

    def _functions(self, call: cst.Call) -> list[cst.FunctionDef]:
        objs = [obj.function if isinstance(obj, Bound) else obj for obj in self.facts.value(call.func).objs]
        nodes = [obj.node if isinstance(obj, Function) else None for obj in objs]
        functions = [node for node in nodes if isinstance(node, cst.FunctionDef)]
        return functions if self.depth <= _DEEPEST and len(functions) == len(nodes) else []

    def _answers(self, function: cst.FunctionDef) -> bool:
        """Whether it says True on the first rank alone, and nothing else than True or False by its word."""
        module = next((one for one in self.facts.run.frames if function in one.positions), self.module)
        inside = Tests(self.facts, module, self.depth + 1)
        results = list(_results(function))
        return any(inside.is_first(one) for one in results) and all(
            self.facts.value(one).constant() is False or inside.is_first(one) or inside._is_of_one(one)
            for one in results
        )

    def _is_of_one(self, result: cst.BaseExpression) -> bool:
        """`return True` where there is no group."""
        around = self.module.enclosing(result)
        for inner, outer in zip((result, *around), around, strict=False):
            if isinstance(outer, cst.FunctionDef):
                return False
            tested, outcome = _decided(outer, inner)
            if tested is not None and self._says_alone(tested, outcome):
                return True
        return False


def _results(function: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    own = [node for node in tree.walk(function.body) if isinstance(node, cst.Return)]
    yield from (one.value or cst.Name("None") for one in own)


def _assigned(module: Module, place: cst.CSTNode) -> cst.BaseExpression | None:
    holder = module.parents.get(place)
    if isinstance(holder, cst.AssignTarget):
        holder = module.parents.get(holder)
    return holder.value if isinstance(holder, (cst.Assign, cst.AnnAssign)) and place in tree.targets(holder) else None
