"""What is seen never to succeed: what follows it in the checklist is of a script that does not get so far."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.events import Event, Kind
from distify_codemods.objects import Class, Function, Sequence
from distify_codemods.program import Module
from distify_codemods.rules.base import Context
from distify_codemods.values import Value


def advise(context: Context) -> None:
    """Says of a class of the script that it is given a keyword that it lacks, and what is unpacked into other names."""
    told: set[cst.CSTNode] = set()
    for event in context.facts.of_kind(Kind.CALL):
        for called, keyword in _lacking(context, event):
            if event.node not in told and not event.unused:
                told.add(event.node)
                context.advice(
                    f"this raises TypeError whenever it is called: `{called}` takes no `{keyword}`; what is said of "
                    "what comes after it holds once that is mended", event.module, event.node,
                )  # fmt: skip

    for module, node, count, targets in _unpacked(context):
        context.advice(
            f"this raises ValueError whenever it is reached: {count} are unpacked into {targets}; what is said of what "
            "comes after it holds once that is mended", module, node,
        )  # fmt: skip


def _unpacked(context: Context) -> Iterator[tuple[Module, cst.CSTNode, int, int]]:
    """`out, loss = model(x)`, of a model that returns three."""
    for module in context.facts.run.frames:
        for node in module.parents:
            if not isinstance(node, cst.Assign) or not isinstance(node.targets[0].target, (cst.Tuple, cst.List)):
                continue
            targets = node.targets[0].target.elements
            counts = _lengths(context.facts.value(node.value))
            starred = any(isinstance(one, cst.StarredElement) for one in targets)
            if node in context.facts.run.unused:
                continue
            if len(counts) == 1 and not starred and counts != {len(targets)}:
                yield module, node, counts.pop(), len(targets)


def _lengths(value: Value) -> set[int]:
    """How many items it has; nothing where that is not seen of all that it may be."""
    found: set[int] = set()
    for obj in value.objs:
        if not isinstance(obj, Sequence) or not isinstance(obj.site, cst.Tuple) or obj.items is None:
            return set()
        if any(isinstance(one, cst.StarredElement) for one in obj.site.elements):
            return set()
        found.add(len(obj.items))
    return found if not value.open else set()


def _lacking(context: Context, event: Event) -> Iterator[tuple[str, str]]:
    if not isinstance(event.node, cst.Call) or not event.name.startswith("local."):
        return
    callee = context.facts.value(event.node.func)
    function = _function(callee.single()) if not callee.open else None
    if function is None or function.decorators or isinstance(function.params.star_kwarg, cst.Param):
        return
    known = {one.name.value for one in (*function.params.params, *function.params.kwonly_params)}
    for name in tree.keywords(event.node):
        if name not in known:
            yield tree.dotted(event.node.func) or event.name.removeprefix("local."), name


def _may_be_made_by_a_library(cls: Class) -> bool:
    """`class Layer(nn.Linear, Mixin)`: what comes first has a constructor, too."""
    above = cls.order[: next((at for at, one in enumerate(cls.order) if "__init__" in one.attributes), 0)]
    return any(not isinstance(obj, Class) for one in above for base in one.bases for obj in base.objs)


def _function(callee: Obj | None) -> cst.FunctionDef | None:
    """What takes the arguments; None where a decorator, `__new__` or a metaclass may have a hand in it."""
    if isinstance(callee, Class):
        nodes = [one.node for one in callee.order]
        plain = all(one is not None and not one.decorators and not one.keywords for one in nodes)
        plain = plain and callee.member("__new__") is None and not _may_be_made_by_a_library(callee)
        maker = callee.member("__init__") if plain else None
        callee = maker.single() if maker is not None and not maker.open else None
    node = callee.node if isinstance(callee, Function) else None
    return node if isinstance(node, cst.FunctionDef) else None
