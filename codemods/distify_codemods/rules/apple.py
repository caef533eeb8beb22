"""Apple's GPU: one process can train on it, and ranks cannot send each other what is there."""

from __future__ import annotations

from collections.abc import Container, Iterable

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const
from distify_codemods.events import Event, Kind
from distify_codemods.libraries import devices
from distify_codemods.program import Module
from distify_codemods.rules.base import Context
from distify_codemods.values import Value

_REASON = "ranks cannot send each other what is on Apple's GPU: on a Mac they train on the CPU"


def run(context: Context) -> bool:
    """Lets ranks find no such GPU; whether anything was to be said."""
    asked = {event.node: event.module for event in context.facts.calls(*devices.ASKS_FOR_APPLES)}
    asked |= _texts(context, asked)
    for node, module in asked.items():
        if context.editable(module, node, "an accelerator is asked for") and isinstance(node, cst.BaseExpression):
            context.put_into(module, node, "without_mps({})", _REASON)
            context.applied("on a Mac, ranks train on the CPU", module, node)
    named = next((one for one in context.facts.of_kind(Kind.CALL, Kind.METHOD) if _is_left(one, asked)), None)
    if named is not None:
        context.needs_you(
            "something is put on `mps`, and ranks cannot send each other what is there", named.module, named.node,
            'take "cuda" where there is one, and else "cpu"',
        )  # fmt: skip
    return bool(asked) or named is not None


def _texts(context: Context, asked: Iterable[cst.CSTNode]) -> dict[cst.CSTNode, Module]:
    """`"mps"`, but for where it is taken by a test that is answered for ranks."""
    return {
        obj.site: obj.module
        for event in context.facts.of_kind(Kind.CALL, Kind.METHOD) if not _is_numbered(event)
        for obj in _where(event).objs
        if isinstance(obj, Const) and _is_apples(obj.value) and isinstance(obj.site, cst.SimpleString)
        and obj.module is not None and not _is_answered(obj.module, obj.site, asked)
    }  # fmt: skip


def _is_answered(module: Module, node: cst.CSTNode, asked: Iterable[cst.CSTNode]) -> bool:
    """Whether it is asked for the accelerator in a test around it, or where a name of that test has its value from."""
    tests = [one.test for one in module.enclosing(node) if isinstance(one, (cst.If, cst.IfExp))]
    names = [part for test in tests for part in tree.walk(test) if isinstance(part, cst.Name)]
    bound = [module.statement(one) for name in names for one in module.flow(name).reaching(name)]
    return any(part in asked for where in (*tests, *bound) for part in tree.walk(where))


def _where(event: Event) -> Value:
    given = event.arguments.keywords.get("device")
    if event.name == devices.DEVICE or (event.kind is Kind.METHOD and event.name == "to"):
        given = given or next(iter(event.arguments.positional), None)
    return given or Value()


def _is_apples(where: object) -> bool:
    return isinstance(where, str) and where.partition(":")[0] == devices.APPLES


def _is_numbered(event: Event) -> bool:
    """`torch.device("mps", 0)`"""
    return event.name == devices.DEVICE and len(event.arguments.positional) > 1


def _is_left(event: Event, asked: Container[cst.CSTNode]) -> bool:
    """Whether something is put there for certain, by a text that is not seen: whoever tests something before may mean a
    Mac by it.
    """
    seen = all(obj.site in asked for obj in _where(event).objs)
    if (seen and not _is_numbered(event)) or not _is_apples(_where(event).constant()):
        return False
    tested = any(here.arm and isinstance(here.node, (cst.If, cst.Try, cst.While)) for here in event.here.up())
    return not tested and not _is_chosen(event.module, event.node)


def _is_chosen(module: Module, node: cst.CSTNode) -> bool:
    """`torch.device("mps") if torch.backends.mps.is_available() else None`"""
    return any(isinstance(one, (cst.IfExp, cst.BooleanOperation)) for one in module.enclosing(node))
