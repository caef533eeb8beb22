"""Functions that TorchScript compiles: it takes no call of the runtime in them, and says so when they are defined."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.answers import answered_once
from distify_codemods.callables import called, methods
from distify_codemods.events import Kind
from distify_codemods.facts import Facts, given_to
from distify_codemods.inside import core
from distify_codemods.libraries import torchscript
from distify_codemods.objects import Class, Instance
from distify_codemods.program import Module


def is_compiled(facts: Facts, module: Module, node: cst.CSTNode) -> bool:
    """Whether a node stands in one."""
    return bool(compiled(facts)) and any(one in compiled(facts) for one in module.enclosing(node))


@answered_once
def compiled(facts: Facts) -> frozenset[cst.CSTNode]:
    """Those that are named to it, and all that they call."""
    found: set[cst.CSTNode] = set()
    queue = list(_named(facts))
    while queue:
        function = queue.pop()
        if function not in found:
            found.add(function)
            calls = (one.func for one in tree.walk(function) if isinstance(one, cst.Call))
            queue += [inner for func in calls for inner in called(facts.value(func).objs)]
    return frozenset(found)


def _named(facts: Facts) -> Iterator[cst.CSTNode]:
    for module in facts.program.modules.values():
        for node in module.nodes:
            if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and any(
                _compiles(facts, one.decorator) for one in node.decorators
            ):
                yield from _functions_of(node)
    for event in facts.of_kind(Kind.CALL):
        if event.name in torchscript.COMPILES:
            for obj in given_to(event.arguments):
                yield from _run_by(core(obj))


def _functions_of(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Of a class all methods."""
    inside = tree.walk(node) if isinstance(node, cst.ClassDef) else (node,)
    yield from (one for one in inside if isinstance(one, cst.FunctionDef))


def _compiles(facts: Facts, decorator: cst.BaseExpression) -> bool:
    return any(isinstance(obj, Ref) and obj.name in torchscript.COMPILES for obj in facts.value(decorator).objs)


def _run_by(obj: Obj) -> Iterator[cst.CSTNode]:
    """Of a module, what it does when it is called."""
    if isinstance(obj, Instance) and obj.of is not None:
        yield from (one.node for one in methods(obj.of, "forward") if one.node is not None)
    elif not isinstance(obj, Class):
        yield from called([obj])
