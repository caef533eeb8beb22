"""Shards that a library would deal out to the ranks by itself: all ranks read all of them, as one process does."""

from __future__ import annotations

import libcst as cst

from distify_codemods.allocation import Ref
from distify_codemods.events import Event
from distify_codemods.libraries import shards
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, instead

_WHOLE = "`webdataset` deals out no shards to ranks: each reads them all"
_REASON = "all ranks read the same shards: what is shared out is shared out once"


def leave_whole(context: Context, code: str) -> None:
    """What is read by shards is a stream like any other: who deals it out is the conversion."""
    for event in context.facts.calls(*shards.SPLIT):
        _not_split(context, event, code)
    for module in context.facts.run.frames:
        for node in module.nodes:
            if not isinstance(node, (cst.Attribute, cst.Name)) or not _is_a_stage(context, module, node):
                continue
            if context.editable(module, node, "shards are dealt out here"):
                context.plan(module).replace(node, instead(cst.Name("iter")), code, _REASON)
                context.applied(_WHOLE, module, node)
    for event in context.facts.calls(*shards.BY_THEMSELVES):
        context.needs_you(
            f"`{event.name}` deals out its samples to the ranks by itself, as soon as there are some",
            event.module, event.node,
            "read the samples with a data set that knows of no ranks, in the order of one process",
        )  # fmt: skip


def _not_split(context: Context, event: Event, code: str) -> None:
    given = event.arguments.keywords.get(shards.OPTION)
    theirs = given is None or any(isinstance(obj, Ref) and obj.name in shards.SPLITTERS for obj in given.objs)
    if theirs and isinstance(event.node, cst.Call) and context.editable(event.module, event.node, "shards are read"):
        context.plan(event.module).set_keyword(event.node, shards.OPTION, "None", code, _REASON)
        context.applied(_WHOLE, event.module, event.node)


def _is_a_stage(context: Context, module: Module, node: cst.Attribute | cst.Name) -> bool:
    """`wds.split_by_node` among the parts of a pipeline."""
    parent = module.parents.get(node)
    if not isinstance(parent, (cst.Arg, cst.Element)) or (isinstance(parent, cst.Arg) and parent.keyword is not None):
        return False
    return any(isinstance(obj, Ref) and obj.name in shards.SPLITTERS for obj in context.facts.value(node).objs)
