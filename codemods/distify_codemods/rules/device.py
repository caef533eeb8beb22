"""DEVICE01: one process, one device; every spelling of a device number means the rank's own."""

from __future__ import annotations

import re

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Event, Kind
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, Rule
from distify_codemods.values import Const, Ref, Setting, Value

CODE = "DEVICE01"
_NUMBERED = re.compile(r"^cuda:(\d+)$")
_REASON = "`cuda` is the rank's own GPU, which the process group has set; a number would put every rank on one"


def run(context: Context) -> None:
    numbers = _numbered(context)
    indices = {match for _, _, match in numbers}
    if len(indices) > 1:
        module, node, _ = numbers[0]
        context.needs_you(
            f"tensors are put on several GPUs ({', '.join(sorted(indices))}): a model-parallel script",
            module, node, "data parallelism needs a model that fits on one GPU",
        )  # fmt: skip
        return
    changed = False
    for module, node, _ in numbers:
        if context.editable(module, node, "a GPU is named by its number"):
            quote = node.value[-1]
            context.plan(module).replace(node, lambda _, q=quote: cst.SimpleString(f"{q}cuda{q}"), CODE, _REASON)  # type: ignore[misc]
            changed = True
    for event in context.facts.run.events:
        changed = _of_event(context, event) or changed
    if changed:
        context.applied("device numbers mean the rank's own GPU")
    else:
        context.not_needed("no GPU is named by its number; `cuda` means the rank's own, which the process group sets")


def _numbered(context: Context) -> list[tuple[Module, cst.SimpleString, str]]:
    found = []
    for module in context.facts.run.frames:
        for node in context.facts.run.values:
            if isinstance(node, cst.SimpleString) and node in module.parents:
                match = _NUMBERED.match(tree.string(node) or "")
                if match:
                    found.append((module, node, match.group(1)))
    return found


def _of_event(context: Context, event: Event) -> bool:
    node = event.node
    if event.kind is Kind.STORE and event.name == "[]" and _sets_visible_devices(context, event):
        return _remove(context, event, "the launcher gives each rank its GPU; a fixed list would hide it")
    if not isinstance(node, cst.Call):
        return False
    if event.kind is Kind.CALL and event.name == "torch.cuda.set_device":
        return _remove(context, event, "the process group has set the rank's GPU")
    if event.kind is Kind.CALL and event.name == "torch.device" and node.args:
        return _device_call(context, event, node)
    if event.kind is Kind.METHOD and event.name == "cuda" and node.args:
        return _cuda_call(context, event, node)
    if (
        event.kind is Kind.METHOD
        and event.name == "to"
        and node.args
        and _is_number(context.facts.value(node.args[0].value))
    ):
        return _rank_device(context, event, node.args[0].value)
    return False


def _sets_visible_devices(context: Context, event: Event) -> bool:
    target = event.node
    if not isinstance(target, cst.Subscript) or not isinstance(target.slice[0].slice, cst.Index):
        return False
    holder = context.facts.value(target.value).single()
    key = tree.string(target.slice[0].slice.value)
    return isinstance(holder, Ref) and holder.name == "os.environ" and key == "CUDA_VISIBLE_DEVICES"


def _remove(context: Context, event: Event, reason: str) -> bool:
    parent = event.module.parents[event.node]
    if isinstance(parent, cst.AssignTarget):
        parent = event.module.parents[parent]
    if not isinstance(parent, cst.BaseSmallStatement):
        context.needs_you("the GPU is chosen here", event.module, event.node, "remove it: each rank has its own GPU")
        return False
    if not context.editable(event.module, event.node, "the GPU is chosen here"):
        return False
    context.plan(event.module).remove(parent, CODE, reason)
    return True


def _device_call(context: Context, event: Event, node: cst.Call) -> bool:
    """`torch.device("cuda", 0)`, `torch.device(0)`, `torch.device(f"cuda:{gpu}")`."""
    first = node.args[0].value
    computed = isinstance(first, (cst.FormattedString, cst.BinaryOperation)) and '"cuda:' in tree.code_of(
        first
    ).replace("'", '"')
    formatted = isinstance(first, cst.Call) and (tree.code_of(first.func).strip("\"'").startswith("cuda:"))
    if len(node.args) > 1 or computed or formatted or _is_number(context.facts.value(first)):
        if not context.editable(event.module, node, "a GPU is named by its number"):
            return False
        rt = context.rt(event.module)
        new = context.text(event.module, f"{rt}.device()")
        context.plan(event.module).replace(node, lambda _: new, CODE, "the rank's own device")
        return True
    return False


def _cuda_call(context: Context, event: Event, node: cst.Call) -> bool:
    """`.cuda(0)`, `.cuda(args.gpu)`, `.cuda(device=gpu)`; `.cuda(non_blocking=True)` stays."""
    kept = [
        arg
        for arg in node.args
        if arg.keyword is not None and arg.keyword.value in ("non_blocking", "async", "memory_format")
    ]
    if len(kept) == len(node.args) or not context.editable(event.module, node, "a GPU is named by its number"):
        return False
    kept = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) if arg is kept[-1] else arg for arg in kept]

    def without(updated: cst.BaseExpression) -> cst.BaseExpression:
        return updated.with_changes(args=kept)

    context.plan(event.module).replace(node, without, CODE, _REASON)
    return True


def _is_number(value: Value) -> bool:
    """An integer for certain; what the command line gives is not known to be one."""
    return any(
        isinstance(obj, Const) and isinstance(obj.value, int) and not isinstance(obj.value, bool) for obj in value.objs
    ) and not any(isinstance(obj, Setting) for obj in value.objs)


def _rank_device(context: Context, event: Event, node: cst.BaseExpression) -> bool:
    if not context.editable(event.module, node, "a GPU is named by its number"):
        return False
    new = context.text(event.module, f"{context.rt(event.module)}.device()")
    context.plan(event.module).replace(node, lambda _: new, CODE, "the rank's own device")
    return True


RULE = Rule(
    code=CODE,
    name="device pinning",
    why="A GPU named by its number puts every rank on that one GPU: it runs out of memory, and the others idle.",
    safety="The process group sets the rank's GPU, so that `cuda` and `.cuda()` mean it and stay as they are. "
    "Numbers, `set_device` and `CUDA_VISIBLE_DEVICES` go. A script that uses several GPUs by number is refused.",
    run=run,
    pitfalls=(13, 37, 38),
)
