"""TF05: the first process alone writes checkpoints and files, and speaks."""

from __future__ import annotations

import re

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Event, Kind
from distify_codemods.libraries import effects
from distify_codemods.program import Module
from distify_codemods.rules.base import Context, Rule
from distify_codemods.tensorflow.found import Found, argument, is_starred

CODE = "TF05"
_FIRST = "the first process alone writes"
_SPEAKS = "the first process alone speaks"
_WRITERS = re.compile(r".*\.callbacks\.(?:ModelCheckpoint|TensorBoard|CSVLogger|BackupAndRestore|RemoteMonitor)")
_SAVES = ("save", "save_weights", "export", "save_pretrained")
_FILE_WRITERS = re.compile(r"tensorflow(?:\.compat\.v[12])?\.summary\.(?:FileWriter|create_file_writer)")
_BARS = {"fit": "1", "evaluate": "1", "predict": "0"}


def run(context: Context) -> None:
    found = Found(context.facts)
    for event in found.monitored:
        given = argument(event.node, "checkpoint_dir", 2)
        if given is not None:
            _only_on_first(context, event.module, given.value, "None", _FIRST)
    for event in found.methods(r"(?:tensorflow|keras)\b", *_SAVES):
        _guard(context, event.module, event.node, _FIRST)
    for event in context.facts.of_kind(Kind.CALL):
        if _WRITERS.fullmatch(event.name):
            _leave_out(context, event)
        elif _FILE_WRITERS.fullmatch(event.name) or _opens_to_write(event):
            context.needs_you("every process would write this", event.module, event.node,
                              f"do it under `if {context.engine(event.module)}.rank() == 0:`")  # fmt: skip
    for event in context.facts.of_kind(Kind.PRINT):
        _guard(context, event.module, event.node, _SPEAKS)
    for event in (*found.fits, *found.methods(r"(?:tensorflow\.|tensorflow\.python\.)?keras\b", "evaluate", "predict")):
        _quiet(context, event)


def _is_first(context: Context, module: Module) -> str:
    return f"{context.engine(module)}.rank() == 0"


def _only_on_first(context: Context, module: Module, node: cst.BaseExpression, other: str, reason: str) -> None:
    text = f"{tree.code_of(node)} if {_is_first(context, module)} else {other}"
    context.plan(module).replace(node, lambda _: context.text(module, text), CODE, reason)
    context.applied(reason, module, node)


def _guard(context: Context, module: Module, node: cst.CSTNode, reason: str) -> None:
    statement = module.statement(node)
    line = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    if len(line) == 1 and isinstance(line[0], cst.Expr) and line[0].value is node:
        context.plan(module).guard(statement, f"if {_is_first(context, module)}:", CODE, reason)
        context.applied(reason, module, node)
    elif reason is _FIRST:
        context.needs_you("every process would write this", module, node,
                          f"do it under `if {_is_first(context, module)}:`")  # fmt: skip


def _leave_out(context: Context, event: Event) -> None:
    """Of a list of callbacks, one that writes."""
    module, call = event.module, event.node
    assert isinstance(call, cst.Call)
    element = module.parents[call]
    if not isinstance(element, cst.Element):
        context.needs_you("every process would have a callback that writes", module, call,
                          f"put it into the list only `if {_is_first(context, module)}`")  # fmt: skip
        return
    first = _is_first(context, module)

    def rewrite(updated: cst.BaseExpression) -> cst.BaseExpression:
        return context.text(module, f"*([{tree.code_of(updated)}] if {first} else [])")

    context.plan(module).replace(call, rewrite, CODE, _FIRST)
    context.applied(_FIRST, module, call)


def _opens_to_write(event: Event) -> bool:
    mode = event.arguments.get("mode", 1)
    text = mode.constant() if mode is not None else None
    return event.name in effects.FILES and isinstance(text, str) and bool(set(text) & set("wax+"))


def _quiet(context: Context, event: Event) -> None:
    """A progress bar of the first process."""
    module, call = event.module, event.node
    given = argument(call, "verbose", 4 if event.name == "fit" else None)
    if given is None and not is_starred(call) and _BARS[event.name] != "0":
        text = f"{_BARS[event.name]} if {_is_first(context, module)} else 0"
        assert isinstance(call, cst.Call)
        context.plan(module).set_keyword(call, "verbose", text, CODE, _SPEAKS)
        context.applied(_SPEAKS, module, call)
    elif given is not None and tree.integer(given.value) != 0:
        _only_on_first(context, module, given.value, "0", _SPEAKS)


RULE = Rule(
    CODE, "checkpoints and output",
    why="Processes that write one file spoil it, and N progress bars on one screen can be read by nobody.",
    safety="Checkpoints, callbacks that write, `save`, and lines that only print. What else writes is said.",
    run=run,
)  # fmt: skip
