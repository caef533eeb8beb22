"""OUT02: one rank draws progress bars."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.arguments import bound
from distify_codemods.events import Event, Kind
from distify_codemods.file_events import code_of
from distify_codemods.libraries import progress
from distify_codemods.libraries.registry import Role, find
from distify_codemods.objects import Mapping
from distify_codemods.rules.base import Context, Rule, call_of
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.once import once
from distify_codemods.values import Value

CODE = "OUT02"


def run(context: Context) -> None:
    calls = context.facts.of_kind(Kind.CALL)
    found = [event for event in calls if event.name in progress.CAN_BE_DISABLED]
    others = [event for event in calls if find(event.name, Role.BAR)]
    for event in others:
        context.advice(f"every rank draws the bar of `{code_of(event)}`", event.module, event.node)
    for event in found:
        node, module = event.node, event.module
        assert isinstance(node, cst.Call)
        if not context.editable(module, node, "a progress bar is drawn"):
            continue
        rt = context.rt(module)

        if len(context.facts.value(node.func).objs) > 1:
            context.advice(
                f"what draws here may be a stand-in for {event.name.partition('.')[0]}; every rank draws it",
                module,
                node,
            )
            continue
        present = bound(node, progress.parameters(event.name)).get("disable")
        table = event.arguments.double_star
        if present is None and table is not None and not _lacks_disable(table):
            context.advice("`**kwargs` may set `disable`; every rank draws this bar", module, node)
            continue
        quiet = f"not {rt}.is_main_process()"
        if present is None or tree.code_of(present.value) == "False":
            context.plan(module).set_keyword(node, "disable", quiet, CODE, "one rank draws")
        else:
            context.plan(module).set_keyword(node, "disable", call_of(f"{{}} or {quiet}"), CODE, "one rank draws")
        context.applied("rank 0 draws the progress bar", module, node)
    bars = {event.node for event in found}
    for event in (*calls, *context.facts.of_kind(Kind.METHOD)):
        if _writes(event, bars):
            once(context, event, "one rank writes to the screen")
    shown = context.own_figures.on_bars()
    if shown is not None:
        context.advice(
            "figures beside the bar, and samples that it counts, are of rank 0's share alone",
            shown.module, shown.node,
        )  # fmt: skip
    if not found and not others:
        context.not_needed_if_known("no progress bars")


def _writes(event: Event, bars: set[cst.CSTNode]) -> bool:
    """`tqdm.write(...)`, also of a bar, which writes even if it is not drawn."""
    if event.kind is Kind.METHOD:
        return event.name == "write" and any(obj.site in bars for obj in event.receiver.objs)
    return progress.writes_beside(event.name)


def _lacks_disable(table: Value) -> bool:
    return bool(table.objs) and all(
        isinstance(obj, Mapping) and obj.rest is None and "disable" not in obj.items for obj in table.objs
    )


RULE = Rule(
    code=CODE,
    name="progress bars",
    why="N ranks draw N bars over each other.",
    safety="`disable=` of tqdm and rich is set on all ranks but the first; a `disable` of the script's own still "
    "counts.",
    run=run,
    pitfalls=(16,),
    examples=(
        Example(
            torch="{torch}\nfrom tqdm import tqdm",
            batches="""
            - for x, y in tqdm(loader, desc="train"):
            + for x, y in tqdm(loader, desc="train", disable=not rt.is_main_process()):
            """,
        ),
        Example(
            torch="import sys\n\n{torch}\nfrom tqdm import tqdm",
            group="quiet = not sys.stderr.isatty()\n{group}",
            batches="""
            - for x, y in tqdm(loader, disable=quiet):
            + for x, y in tqdm(loader, disable=quiet or not rt.is_main_process()):
            """,
        ),
        LeftAlone(
            group="""
            def tqdm(values):
                return values


            """,
            batches="for x, y in tqdm(loader):",
        ),
    ),
)
