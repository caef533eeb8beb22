"""`CUDA_VISIBLE_DEVICES`: where a script sets it, and where it reads what it has set."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Ref
from distify_codemods.events import Event, Kind
from distify_codemods.libraries import python
from distify_codemods.rules.base import Context, instead

NAME = "CUDA_VISIBLE_DEVICES"
#: Under it a script finds its own list, which no GPU is hidden by.
_INSTEAD = "SCRIPT_VISIBLE_DEVICES"


def is_set(context: Context, event: Event) -> bool:
    if event.kind is Kind.STORE:
        return _key(context, event) is not None
    return event.kind is Kind.CALL and event.name in python.SETS_ENVIRONMENT and NAME in tree.code_of(event.node)


def readings(context: Context) -> list[Event]:
    """Where the script asks for the list after it may have set it."""
    events = context.facts.of_kind(Kind.ATTRIBUTE, Kind.CALL, Kind.STORE)
    settings = [event for event in events if is_set(context, event)]
    read = [event for event in events if settings and event.kind is not Kind.STORE and _key(context, event) is not None]
    return [
        event
        for event in read
        if event.name not in python.SETS_ENVIRONMENT and any(one.before(event) for one in settings)
    ]


def rename(context: Context, setting: Event, read: list[Event]) -> bool:
    """Gives the list another name in a setting and where it is read: both stay as they are. False if that is not seen.

    `read`: all of the readings.
    """
    key = _key(context, setting)
    if (
        key is None
        or setting.name == python.SETS_IF_MISSING
        or not all(setting.dominates(event) for event in read if setting.before(event))
    ):
        return False
    reason = "the launcher gives each rank its GPU; the script's list goes by another name, since it is read again"
    for event in (setting, *(event for event in read if setting.before(event))):
        literal = _key(context, event)
        assert literal is not None
        quote = tree.code_of(literal)[-1]
        name = cst.SimpleString(quote + _INSTEAD + quote)
        context.plan(event.module).replace(literal, instead(name), context.code, reason)
    return True


def tell_the_launcher(context: Context, setting: Event) -> None:
    """Says what to do about a choice that is gone: ranks take the first of all GPUs that they see."""
    if setting.kind is not Kind.STORE:
        return
    known = setting.value.constant()
    if known != "0":  # of all scripts that name one, most name this, and mean any
        chosen = f"{NAME}={known}" if isinstance(known, str) and known else f"{NAME}=..."
        context.advice(
            f"the script chooses its GPUs here, and each rank takes its own of all that it sees: start it with that "
            f"choice, as in `{chosen} distify run ...`", setting.module, setting.node,
        )  # fmt: skip


def _key(context: Context, event: Event) -> cst.BaseExpression | None:
    """The literal `"CUDA_VISIBLE_DEVICES"` by which the environment is asked, or given it."""
    node = event.node
    if event.name == "[]" and isinstance(node, cst.Subscript):
        index = node.slice[0].slice
        holder = context.facts.value(node.value).single()
        if isinstance(holder, Ref) and holder.name == python.ENVIRONMENT and isinstance(index, cst.Index):
            return index.value if tree.string(index.value) == NAME else None
    if event.name in python.READS_ENVIRONMENT | python.SETS_ENVIRONMENT and isinstance(node, cst.Call) and node.args:
        first = node.args[0].value
        return first if tree.string(first) == NAME else None
    return None
