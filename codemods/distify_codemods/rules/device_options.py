"""DEVICE01: a device that is named on the command line, or in a file, may have a number: the rank's own is meant."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.arguments import bound
from distify_codemods.command_line import declarations, integers
from distify_codemods.events import Event, Kind
from distify_codemods.inside import core, root
from distify_codemods.libraries import checkpoints, devices
from distify_codemods.libraries.quiet import is_quiet
from distify_codemods.objects import External, Method, Sequence, Setting
from distify_codemods.rules.base import Context
from distify_codemods.values import Value

_REASON = "`cuda:1` on the command line means `cuda`, the rank's own GPU"


def run(context: Context) -> bool:
    """Whether any device is named so."""
    named: dict[str, Event] = {}
    read: dict[cst.CSTNode, Event] = {}
    whole = integers(context.facts)
    for event in context.facts.of_kind(Kind.CALL, Kind.METHOD):
        for node in devices_of(event):
            value = context.facts.value(node)
            for obj in value.objs:
                if isinstance(obj, Setting) and obj.name not in whole:
                    named.setdefault(obj.name, event)
            if (name := _parsed(context, node)) and name not in whole:
                named.setdefault(name, event)
            parts = (obj for part in _giving(node) for obj in context.facts.value(part).objs)
            if any(map(_is_read, parts)) or (event.name == devices.DEVICE and not value.objs):
                read.setdefault(event.node, event)
    found = [_declare(context, name, event) for name, event in named.items()]
    for event in list(read.values())[:1]:
        _advise(context, event)
    return any(found) or bool(read)


def devices_of(event: Event) -> Iterator[cst.BaseExpression]:
    """The arguments of a call that are devices, or may be."""
    given = event.node.args if isinstance(event.node, cst.Call) else ()
    named = tree.keywords(event.node)
    placed = [arg.value for arg in given if arg.keyword is None and not arg.star]
    if event.name == devices.DEVICE or (event.kind is Kind.METHOD and event.name == "to"):
        yield from placed[:1]
    if event.name == checkpoints.LOAD:
        yield from [*placed[1:2], *(node for name, node in named.items() if name == "map_location")]
    elif event.kind is Kind.METHOD or event.name.startswith("torch."):
        yield from (node for name, node in named.items() if name == "device")


def _giving(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What a device may be made of: not what is asked to choose between two."""
    yield node
    for inner in (node.body, node.orelse) if isinstance(node, cst.IfExp) else tree.children(node):
        yield from _giving(inner)


def _parsed(context: Context, node: cst.BaseExpression) -> str:
    """The option that this reads, also where the script may have put another value in its place; else ""."""
    if not isinstance(node, cst.Attribute):
        return ""
    holders = context.facts.value(node.value).objs
    parsed = any(isinstance(obj, External) and obj.name.startswith("argparse.parse_") for obj in holders)
    return node.attr.value if parsed and declarations(context.facts, node.attr.value) else ""


def _declare(context: Context, name: str, used: Event) -> bool:
    """Lets the option take the kind of device alone. False: it takes no number anyhow."""
    declared = declarations(context.facts, name)
    if declared and all(map(_has_no_number, declared)):
        return False
    for event in declared or [used]:
        node, kind = event.node, event.arguments.keywords.get("type")
        made = kind.single() if kind is not None else None
        known = kind is None or (isinstance(made, Ref) and made.name in devices.OPTIONS)
        default = event.arguments.keywords.get("default", Value()).constant()
        known = known and (default is None or isinstance(default, str))
        if not declared or not known or not isinstance(node, cst.Call) or "action" in event.arguments.keywords:
            _advise(context, event)
        elif context.editable(event.module, node, "an option names a device"):
            text = f"{context.rt(event.module)}.device_kind"
            if isinstance(made, Ref) and made.name == devices.DEVICE:
                text = f"lambda name: {tree.code_of(bound(node, ('type',))['type'].value)}({text}(name))"
            context.plan(event.module).set_keyword(node, "type", text, context.code, _REASON)
            context.applied(f"`{name}` of the command line means the rank's own GPU", event.module, node)
    return True


def _has_no_number(event: Event) -> bool:
    """`choices=["cpu", "cuda"]`: argparse takes nothing else."""
    choices = event.arguments.keywords.get("choices", Value()).single()
    items = choices.items if isinstance(choices, Sequence) else None
    known = [obj.value if isinstance(obj, Const) else None for item in items or () for obj in item.objs]
    return bool(known) and all(isinstance(one, str) and not one.startswith("cuda:") for one in known)


def _is_read(obj: Obj) -> bool:
    """Whether it comes out of such a thing, or of a library of which nothing is known: a configuration's entry."""
    if isinstance(obj, Method) and obj.name == "dtype":
        return False
    obj = root(obj)
    while isinstance(obj, External) and obj.whole is not None:
        obj = core(obj.whole)
    if isinstance(obj, Ref) and "." not in obj.name:
        return False  # a module
    return isinstance(obj, (External, Ref)) and (obj.name.startswith(devices.READ_SETTINGS) or not is_quiet(obj.name))


def _advise(context: Context, event: Event) -> None:
    context.advice(
        "the device that is named here is not seen: let it be `cuda`, since `cuda:0` puts all ranks on one GPU",
        event.module, event.node,
    )  # fmt: skip
