"""Where rank 0 comes alone in the new file: under the guards that the rules have written, and in what these call."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.callables import called
from distify_codemods.facts import Facts
from distify_codemods.named import functions_named
from distify_codemods.objects import Method
from distify_codemods.program import Module
from distify_codemods.rules.base import Context

_FUNCTIONS = (cst.FunctionDef, cst.Lambda, cst.Module)


class Alone:
    """Of the finished edits: to be asked when all other rules have written theirs.

    `in_turns`: where ranks come one after the other instead, and who is first waits for none of them.
    """

    def __init__(self, context: Context, in_turns: bool = False) -> None:
        calls: set[cst.CSTNode] = set()
        self._places: set[cst.CSTNode] = set()
        for plan in context.plans.values():
            if in_turns:
                self._places.update(plan.in_turns())
            else:
                calls |= plan.handed_over  # whose arguments all ranks evaluate
                self._places.update(filter(plan.comes_alone, plan.guards))
        calls.update(node for one in self._places for node in tree.walk(one) if isinstance(node, cst.Call))
        self.functions = _run_by(context.facts, calls) if calls else set()

    def holds(self, module: Module, node: cst.CSTNode, beside: bool = False) -> bool:
        """`beside`: what stands before or after a node, and not in it."""
        for around in (*(() if beside else (node,)), *module.enclosing(node)):
            if around in self._places:
                return True
            if isinstance(around, _FUNCTIONS):
                return around in self.functions
        return False


def _run_by(facts: Facts, calls: set[cst.CSTNode]) -> set[cst.CSTNode]:
    """The functions that run in the course of calls: as they were followed, and as they stand in the text."""
    frames = {here.frame for event in facts.run.events for here in event.here.up()}
    found = {frame.node for frame in frames if not calls.isdisjoint(frame.context)}
    queue = list(calls)
    while queue:
        call = queue.pop()
        objs = facts.value(call.func).objs if isinstance(call, cst.Call) else ()
        for function in called(objs) if any(map(_is_known, objs)) else _of_its_name(facts, call):
            if function not in found:
                found.add(function)
                queue += [node for node in tree.walk(function) if isinstance(node, cst.Call)]
    return found


def _is_known(obj: Obj) -> bool:
    """Not a method of who knows what."""
    while isinstance(obj, Method):
        if obj.receiver is None or not obj.receiver.objs:
            return False
        obj = next(iter(obj.receiver.objs))
    return True


def _of_its_name(facts: Facts, call: cst.CSTNode) -> list[cst.FunctionDef]:
    """What a call may run of which is not known what it calls: whatever of the project has its name."""
    func = call.func if isinstance(call, cst.Call) else None
    name = func.attr if isinstance(func, cst.Attribute) else func
    return functions_named(facts, name.value) if isinstance(name, cst.Name) else []
