"""OUT04: log records come from rank 0."""

from __future__ import annotations

import libcst as cst

from distify_codemods.arguments import bound
from distify_codemods.decisions.log_records import log_records
from distify_codemods.events import Event, Kind
from distify_codemods.libraries.registry import Role, functions
from distify_codemods.objects import Instance
from distify_codemods.rules import start, tuning
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.once import once

CODE = "OUT04"


def run(context: Context) -> None:
    found = False
    for event in context.facts.of_kind(Kind.CALL):
        if event.name in functions(Role.LOG_FILE):
            found = _handler(context, event) or found
        elif event.name in functions(Role.LOG_BASICS):
            found = _basic_config(context, event) or found
        elif event.name in functions(Role.LOG_SETUP, Role.LOG_SINK):
            found = True
            if context.editable(event.module, event.node, "logging is configured"):
                once(context, event, "log files are rank 0's")
                context.applied("rank 0 opens the log files", event.module, event.node)
        elif event.name.startswith("local.") and _is_a_file_handler(event) and not context.comes_on_main(event):
            found = True
            context.needs_you(
                "a handler of the script's own would open a log file on every rank", event.module, event.node,
                "open the file with `rt.main_process_open`, or add the handler under `if rt.is_main_process():` only",
            )  # fmt: skip
    logged = log_records(context.facts) or tuning.studies(context.facts)  # which logs its trials
    if logged:
        _quiet(context, logged[0])
    elif not found:
        context.not_needed_if_known("the script logs nothing")


def _quiet(context: Context, first: Event) -> None:
    place = start.place(context)
    if place is None:
        return
    statement, after = place
    module, plan = context.entry, context.plan(context.entry)
    reason = "each record once"
    text = f"{context.rt(module)}.rank_zero_logging()"
    plan.insert(statement, text, CODE, reason, -9, after=after)
    context.applied("log records come from rank 0; errors from all ranks", first.module, first.node)


def _handler(context: Context, event: Event) -> bool:
    if isinstance(event.node, cst.Call) and context.editable(event.module, event.node, "a log file is opened"):
        _to_null(context, event, event.node, "filename")
    return True


def _basic_config(context: Context, event: Event) -> bool:
    if not isinstance(event.node, cst.Call):
        return False
    given = event.arguments
    if given.get("filename") is None and given.double_star is None:
        return False
    if context.editable(event.module, event.node, "a log file is opened"):
        if "filename" in given.keywords:
            _to_null(context, event, event.node, "filename")
        else:
            once(context, event, "log files are rank 0's")
            context.applied("rank 0 opens the log file", event.module, event.node)
    return True


def _to_null(context: Context, event: Event, call: cst.Call, name: str) -> None:
    """The handler is there on every rank, so that whatever is done to it can be done; its file is rank 0's."""
    path = bound(call, (name,)).get(name)
    if path is None:
        context.needs_you(
            "a log file is opened on every rank", event.module, call,
            f"name its file in the call: `{name}=rt.main_process_path(...)`",
        )  # fmt: skip
        return
    context.put_into(event.module, path.value, "main_process_path({})", "the other ranks' records go nowhere")
    context.applied("rank 0 opens the log file", event.module, call)


def _is_a_file_handler(event: Event) -> bool:
    return any(
        isinstance(obj, Instance) and obj.of is not None and obj.of.derives_from(*functions(Role.LOG_FILE))
        for obj in event.value.objs
    )


RULE = Rule(
    code=CODE,
    name="logging",
    why="N ranks log N times, into one file over each other; a handler opens its file, and may empty it, as soon as it "
    "is made.",
    safety="Records below ERROR are rank 0's, for all loggers of the process. Log files are opened on rank 0; the "
    "handlers of the other ranks write to the null device.",
    run=run,
    pitfalls=(16,),
    examples=(
        Example(
            torch="import logging\n{torch}",
            group="""
              {group}
            - logging.basicConfig(filename="run.log", level=logging.INFO)
            + rt.rank_zero_logging()
            + logging.basicConfig(filename=rt.main_process_path("run.log"), level=logging.INFO)
              logger = logging.getLogger(__name__)
            """,
            end='logger.info("done")',
        ),
        Example(
            torch="import logging.config\n{torch}",
            group="""
              {group}
            - logging.config.fileConfig("logging.ini")
            + rt.rank_zero_logging()
            + if rt.is_main_process():
            +     logging.config.fileConfig("logging.ini")
            """,
            end='logging.info("done")',
        ),
        LeftAlone(torch="import logging\n{torch}", group="logger = logging.getLogger(__name__)"),
    ),
)
