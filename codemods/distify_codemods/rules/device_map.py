"""`device_map`: where a library puts the layers of a model that it loads."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const
from distify_codemods.events import Event, Kind
from distify_codemods.libraries import devices
from distify_codemods.libraries.parallel import SPREADS
from distify_codemods.objects import External, Setting
from distify_codemods.rules import device_options
from distify_codemods.rules.base import Context, instead
from distify_codemods.values import Value

_KEYWORD = "device_map"
#: Who names them has a model in mind that is larger than one GPU.
_FOR_SEVERAL = ("max_memory", "offload_folder", "offload_state_dict", "no_split_module_classes")
_FIX = 'say where all of it goes, `device_map={"": rt.device()}` with `import distify_runtime as rt`'


def run(context: Context) -> bool:
    """Lets each rank load whole models onto its own device; whether there was one to be spread."""
    found = False
    for event in context.facts.of_kind(Kind.CALL, Kind.METHOD, Kind.FORWARD):
        given = event.arguments.get(_KEYWORD)
        if given is not None and isinstance(event.node, cst.Call):
            found = _one(context, event, event.node, given) or found
    return found


def _one(context: Context, event: Event, call: cst.Call, given: Value) -> bool:
    module = event.module
    node = tree.keywords(call).get(_KEYWORD)
    if node is None:
        return not _is_one_device(context, event, None, given) and _needs_you(context, event, call)
    parts = list(_parts(node))
    spread = [one for one in parts if not _is_one_device(context, event, one, context.facts.value(one))]
    if not spread:
        return False
    spread_out = any(one.name == "hf_device_map" for one in context.facts.of_kind(Kind.ATTRIBUTE))
    planned = any(event.arguments.get(name) is not None for name in _FOR_SEVERAL) or spread_out
    if planned or not all(_goes_whole(context, one) for one in spread):
        return _needs_you(context, event, call)
    for one in spread:
        if context.editable(module, one, "a model is spread over GPUs"):
            new = context.text(module, f'{{"": {context.rt(module)}.device()}}')
            reason = "a rank has one GPU, and the whole model on it"
            context.plan(module).replace(one, instead(new), context.code, reason)
            context.applied("a model is loaded onto the rank's own GPU, and has to fit there", module, one)
    return True


def _needs_you(context: Context, event: Event, call: cst.Call) -> bool:
    context.needs_you("a model may be spread over the GPUs, which are other ranks' as well", event.module, call, _FIX)
    return True


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.IfExp):
        yield from _parts(node.body)
        yield from _parts(node.orelse)
    else:
        yield node


def _is_one_device(context: Context, event: Event, node: cst.BaseExpression | None, value: Value) -> bool:
    """None, a device by its kind, or a `torch.device`; numbers in these are followed by themselves."""
    return bool(value.objs) and not value.open and all(
        (isinstance(obj, Const) and (obj.value is None or (isinstance(obj.value, str) and obj.value not in SPREADS)))
        or (isinstance(obj, External) and obj.name == devices.DEVICE)
        or (isinstance(obj, Setting) and device_options.is_one_device(context, obj.name, event, node))
        for obj in value.objs
    )  # fmt: skip


def _goes_whole(context: Context, node: cst.BaseExpression) -> bool:
    """`"auto"`, a number, or `{"": 0}`."""
    if isinstance(node, cst.Dict):
        only = node.elements[0] if len(node.elements) == 1 else None
        return isinstance(only, cst.DictElement) and tree.string(only.key) == ""
    value = context.facts.value(node)
    known = [obj.value for obj in value.objs if isinstance(obj, Const)]
    whole = all(one in SPREADS or (isinstance(one, int) and not isinstance(one, bool)) for one in known)
    return bool(known) and len(known) == len(value.objs) and not value.open and whole
