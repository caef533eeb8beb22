"""What the functions of a pass find as an earlier pass has left it: a pass of a batch through a model, or of one sample
through what makes it.

An attribute may be set in one method, and read in another one that is called before or after it: where control may come
to a line with what was there when the pass began is followed through the methods that an object calls of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.control_flow import parameters_of
from distify_codemods.decisions.of_before import STATEMENTS
from distify_codemods.facts import Facts
from distify_codemods.objects import Bound, Function, Instance, Partial
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.values import Value

Callable = cst.FunctionDef | cst.Lambda
_CALLED = ("__call__", "forward")


@dataclass(frozen=True)
class _Calling:
    module: Module
    node: cst.CSTNode
    of_itself: bool  # `self.method()`


class Pass:
    """`functions`: that are run in it; those that none of the others calls, it begins with."""

    def __init__(self, facts: Facts, functions: Collection[cst.CSTNode]) -> None:
        self._facts = facts
        self.functions = [one for one in functions if isinstance(one, (cst.FunctionDef, cst.Lambda))]
        self._callers: dict[cst.CSTNode, list[_Calling]] = {one: [] for one in self.functions}
        self._calls: dict[cst.CSTNode, list[tuple[cst.CSTNode, list[Callable]]]] = {}
        for function in self.functions:
            module = facts.module_of(function)
            for node, called, of_itself in calls_in(facts, module, function):
                self._calls.setdefault(function, []).append((node, called if of_itself else []))
                for one in called:
                    if one in self._callers and one is not function:
                        self._callers[one].append(_Calling(module, node, of_itself))

    def may_be_as_it_began(self, module: Module, node: cst.CSTNode, attribute: str) -> bool:
        """Whether control may come to a node with an attribute of the function's own object as the pass found it."""
        return self._as_it_began(module, node, attribute, set())

    def _as_it_began(self, module: Module, node: cst.CSTNode, attribute: str, seen: set[cst.CSTNode]) -> bool:
        function = module.function(node)
        if not self._may_be_as_before(module, node, function, attribute):
            return False
        callers = self._callers.get(function, [])
        if not callers or function in seen:
            return not callers
        seen.add(function)
        return any(
            not one.of_itself or self._as_it_began(one.module, one.node, attribute, seen) for one in callers
        )  # fmt: skip

    def reads_elsewhere(self, module: Module, node: cst.CSTNode, attribute: str) -> Iterator[cst.Attribute]:
        """Where other methods of the object read an attribute as it may be since before the pass."""
        mine = self._owners(module.function(node))
        for function in self.functions:
            if function is module.function(node) or mine.isdisjoint(self._owners(function)):
                continue
            other = self._facts.module_of(function)
            for one in tree.walk(function.body):
                if not isinstance(one, cst.Attribute) or one.attr.value != attribute or is_target(other, one):
                    continue
                if is_own(function, one) and self.may_be_as_it_began(other, one, attribute):
                    yield one

    def _owners(self, function: cst.CSTNode) -> frozenset[Obj]:
        own = own_name(function)
        body = function.body if isinstance(function, (cst.FunctionDef, cst.Lambda)) else function
        first = next((one for one in tree.walk(body) if isinstance(one, cst.Name) and one.value == own), None)
        return frozenset(self._facts.value(first).objs) if own and first is not None else frozenset()

    def _may_be_as_before(
        self, module: Module, node: cst.CSTNode | None, function: cst.CSTNode, attribute: str,
        within: frozenset[cst.CSTNode] = frozenset(),
    ) -> bool:  # fmt: skip
        """In one function; None: where it ends."""
        if not isinstance(function, (cst.FunctionDef, cst.Lambda)):
            return True
        statement = None
        if node is not None:
            statement = next((one for one in (node, *module.enclosing(node)) if isinstance(one, STATEMENTS)), None)
        if isinstance(function, cst.Lambda):
            return True
        past = [
            _statement(module, call) for call, called in self._calls.get(function, ())
            if called and all(self._sets(one, attribute, within | {function}) for one in called)
        ]  # fmt: skip
        return module.flow(function.body).may_be_as_before(statement, f"{own_name(function)}.{attribute}", past)

    def _sets(self, function: cst.CSTNode, attribute: str, within: frozenset[cst.CSTNode]) -> bool:
        """Whether an attribute has been set anew whenever a method returns."""
        if function in within:
            return False
        return not self._may_be_as_before(self._facts.module_of(function), None, function, attribute, within)


def reached(facts: Facts, begins: Collection[Callable]) -> list[Callable]:
    """Functions, and those of the script's that they call, as far as it is known what is called."""
    found: dict[Callable, None] = dict.fromkeys(begins)
    left = list(found)
    while left:
        function = left.pop()
        for _, called, _ in calls_in(facts, facts.module_of(function), function):
            left += [one for one in called if one not in found]
            found.update(dict.fromkeys(called))
    return list(found)


def calls_in(facts: Facts, module: Module, function: Callable) -> Iterator[tuple[cst.CSTNode, list[Callable], bool]]:
    """The calls of a function of the script's, with what is called, or given to be called, and whether that is of the
    function's own object."""
    own = own_name(function)
    for node in tree.walk(function.body):
        if isinstance(node, (cst.Call, cst.Arg)):
            callee = node.func if isinstance(node, cst.Call) else node.value
            called = list(functions_of(facts.value(callee), of_instances=isinstance(node, cst.Call)))
        elif isinstance(node, cst.Attribute) and not isinstance(module.parents.get(node), cst.Call):
            called = list(_of_property(facts.value(node.value), node.attr.value))
        else:
            continue
        if called:
            yield node, called, _is_of_itself(node, own)


def functions_of(value: Value, of_instances: bool = True) -> Iterator[Callable]:
    """What runs where a value is called."""
    for obj in value.objs:
        if isinstance(obj, Function) and obj.node is not None:
            yield obj.node
        elif isinstance(obj, Bound) and obj.function is not None and obj.function.node is not None:
            yield obj.function.node
        elif isinstance(obj, Partial) and obj.function is not None:
            yield from functions_of(obj.function)
        elif isinstance(obj, Instance) and obj.of is not None and of_instances:
            member = next((one for name in _CALLED if (one := obj.of.member(name)) is not None), None)
            yield from functions_of(member) if member is not None else ()


def _of_property(value: Value, name: str) -> Iterator[Callable]:
    for obj in value.objs:
        member = obj.of.member(name) if isinstance(obj, Instance) and obj.of is not None else None
        for one in member.objs if member is not None else ():
            if isinstance(one, Function) and isinstance(one.node, cst.FunctionDef) and one.node.decorators:
                yield one.node


def _is_of_itself(node: cst.CSTNode, own: str) -> bool:
    callee = node.func if isinstance(node, cst.Call) else node.value if isinstance(node, cst.Arg) else node
    if not isinstance(callee, cst.Attribute) or not own:
        return False
    holder = callee.value
    of_bases = isinstance(holder, cst.Call) and isinstance(holder.func, cst.Name) and holder.func.value == "super"
    return of_bases or (isinstance(holder, cst.Name) and holder.value == own)


def own_name(function: cst.CSTNode) -> str:
    """`self`"""
    given = parameters_of(function) if isinstance(function, cst.FunctionDef) else []
    return given[0].name.value if given else ""


def own_attribute(module: Module, node: cst.CSTNode, place: cst.BaseExpression) -> str:
    """`rows` of `self.rows[0]`, in a method; or nothing."""
    own = own_name(module.function(node))
    attributes = (one for one in tree.inwards(place) if isinstance(one, cst.Attribute))
    held = (one for one in attributes if isinstance(one.value, cst.Name) and one.value.value == own)
    return next((one.attr.value for one in held), "") if own else ""


def is_own(function: cst.CSTNode, place: cst.Attribute) -> bool:
    return isinstance(place.value, cst.Name) and place.value.value == own_name(function)


def is_target(module: Module, place: cst.Attribute) -> bool:
    """Whether it is a target, and not read there."""
    holder = module.parents.get(place)
    return isinstance(holder, (cst.AssignTarget, cst.AnnAssign)) and holder.target is place


def _statement(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    return next(one for one in module.enclosing(node) if isinstance(one, STATEMENTS))
