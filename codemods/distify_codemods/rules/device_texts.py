"""DEVICE01: the name of a GPU that the script puts together in several steps, and devices of which nothing is seen."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from distify_codemods.allocation import Const, Ref
from distify_codemods.facts import dealt_by
from distify_codemods.libraries import devices
from distify_codemods.naming import brief
from distify_codemods.objects import Class, External, Instance, Mapping, Setting
from distify_codemods.rules import device_options
from distify_codemods.rules.base import Context
from distify_codemods.scale import Scale
from distify_codemods.values import Value

_REASON = "a GPU's name that is put together means `cuda`, the rank's own; other devices stay"


def run(context: Context, spelled: Collection[cst.CSTNode]) -> bool:
    """Whether any is put together. `spelled`: the literals that are part of what is replaced where it stands."""
    found = False
    for event, node in device_options.uses_of_devices(context):
        value = context.facts.value(node)
        texts = [one.site for one in value.sources if isinstance(one, Const)]
        put_together = any(one is not None and one not in spelled for one in texts)
        if (
            put_together
            and _may_be_a_text(context, node, value)
            and context.editable(event.module, node, "a GPU is named by its number")
        ):
            context.put_into(event.module, node, "device_kind({})", _REASON)
            found = True
    return found


def unless(context: Context) -> str:
    """What to add where it is said that no GPU is named by its number: the first device of which nothing is seen."""
    for event, node in device_options.uses_of_devices(context):
        mended = device_options.is_edited(context, event, node)
        if not mended and _is_unseen(context.facts.value(node)) and not _is_type(node):
            return f", unless by `{brief(node)}` at {event.module.place(node)}, of which nothing is seen"
    return ""


def _may_be_a_text(context: Context, node: cst.BaseExpression, value: Value) -> bool:
    """No tensor that was put on such a device, and nothing that one says of itself."""
    if isinstance(node, cst.Attribute) and _is_type(node):
        holders = context.facts.value(node.value).objs  # `args.device` is an option
        return any(isinstance(one, (Class, External, Instance, Mapping, Ref)) for one in holders)
    if any(not isinstance(one, (Const, External, Setting)) for one in value.objs):
        return False
    return value.scale is Scale.CONST and not value.dims and not dealt_by(value.sources)


def _is_unseen(value: Value) -> bool:
    return not value.objs and not value.sources and value.scale is Scale.CONST


def _is_type(node: cst.BaseExpression) -> bool:
    """`x.to(y.dtype)`, `x.to(y.device)`: of another tensor."""
    node = node.func if isinstance(node, cst.Call) else node
    return isinstance(node, cst.Attribute) and node.attr.value in devices.OF_TENSORS
