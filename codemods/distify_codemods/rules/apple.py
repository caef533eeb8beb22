"""Apple's GPU: one process can train on it, and ranks cannot send each other what is there."""

from __future__ import annotations

import libcst as cst

from distify_codemods.events import Event, Kind
from distify_codemods.libraries import devices
from distify_codemods.program import Module
from distify_codemods.rules.base import Context

_REASON = "ranks cannot send each other what is on Apple's GPU: on a Mac they train on the CPU"


def run(context: Context) -> bool:
    """Lets ranks find no such GPU; whether anything was to be said."""
    asked = {event.node: event for event in context.facts.calls(*devices.ASKS_FOR_APPLES)}
    for event in asked.values():
        if context.editable(event.module, event.node, "an accelerator is asked for") and isinstance(
            event.node, cst.BaseExpression
        ):
            context.put_into(event.module, event.node, "without_mps({})", _REASON)
            context.applied("on a Mac, ranks train on the CPU", event.module, event.node)
    named = next((one for one in context.facts.of_kind(Kind.CALL, Kind.METHOD) if _is_named(one)), None)
    if named is not None:
        context.needs_you(
            "something is put on `mps`, and ranks cannot send each other what is there", named.module, named.node,
            'take "cuda" where there is one, and else "cpu"',
        )  # fmt: skip
    return bool(asked) or named is not None


def _is_named(event: Event) -> bool:
    """Whether something is put there for certain: whoever tests something before may mean a Mac by it."""
    given = event.arguments.keywords.get("device")
    if event.name == devices.DEVICE or (event.kind is Kind.METHOD and event.name == "to"):
        given = given or next(iter(event.arguments.positional), None)
    where = given.constant() if given is not None else None
    if not isinstance(where, str) or where.partition(":")[0] != devices.APPLES:
        return False
    tested = any(here.arm and isinstance(here.node, (cst.If, cst.Try, cst.While)) for here in event.here.up())
    return not tested and not _is_chosen(event.module, event.node)


def _is_chosen(module: Module, node: cst.CSTNode) -> bool:
    """`torch.device("mps") if torch.backends.mps.is_available() else None`"""
    return any(isinstance(one, (cst.IfExp, cst.BooleanOperation)) for one in module.enclosing(node))
