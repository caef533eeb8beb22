"""OUT01: one rank speaks."""

from __future__ import annotations

from dataclasses import field
from itertools import islice, takewhile

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Ref
from distify_codemods.decisions.log_records import log_records, prints_otherwise, shown_lines
from distify_codemods.decisions.shown import by_a_whole
from distify_codemods.decisions.shown_alone import alone
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import dealt_by
from distify_codemods.file_events import reads
from distify_codemods.libraries import guarded, progress, python
from distify_codemods.naming import brief
from distify_codemods.objects import External, Partial
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.rules import paths
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example, LeftAlone
from distify_codemods.rules.once import once
from distify_codemods.scale import Scale
from distify_codemods.unfollowed import unfollowed

CODE = "OUT01"


def run(context: Context) -> None:
    prints = context.facts.of_kind(Kind.PRINT)
    streams = [
        event for event in context.facts.of_kind(Kind.CALL, Kind.METHOD, Kind.PRINT) if _prints_by_another_name(event)
    ]
    elsewhere = [event for event in (*prints, *streams) if event.module is not context.entry]
    talk = _Talk(context, paths.meetings(context) if elsewhere else set())
    left = {event for event in elsewhere if not _guard_call(context, event, talk)}
    by_module: dict[Module, list[Event]] = {}
    for event in (*_passing_on(context), *prints):
        if event.module is context.entry or event in left:
            by_module.setdefault(event.module, []).append(event)
    for module, events in by_module.items():
        _shadow(context, module, events)
    unseen = _by_libraries(context)
    for module, call in unseen.items():
        if module not in by_module:
            _shadow_unseen(context, module, call)
    for event in streams:
        if event.module is context.entry or event in left:
            _guard(context, event)
    if not prints and not by_module and not streams and not unseen:
        context.not_needed_if_known("the script prints nothing")
    _training_figures(context)


def _prints_by_another_name(event: Event) -> bool:
    """Also `builtins.print(...)`: a new `print` does not reach it."""
    if event.kind is Kind.PRINT:
        return isinstance(event.node, cst.Call) and isinstance(event.node.func, cst.Attribute)
    return prints_otherwise(event) and not progress.writes_beside(event.name)


def _shadow(context: Context, module: Module, events: list[Event]) -> None:
    if not context.editable(module, events[-1].node, "text is printed"):
        return
    has_own = "print" in context.facts.run.frames[module].env  # a function of that name
    if has_own or any(module.skipped(event.node) for event in events):
        for event in events:
            if event.kind is Kind.PRINT:
                _guard(context, event)
            else:
                context.advice("every rank writes to the screen here", module, event.node)
        return
    first = _first_to_print(module, events)
    early = first is not None and _comes_before_an_import(module, first)
    if early and first is not None and not _may_be_above(module, first):
        context.advice("every rank prints here, before torch is imported", module, first)
        early = False
    context.shadow_print(module, first if early else None)
    context.plan(module).noted(CODE, module, "rank 0 prints, the others keep quiet")
    loud = first if first is not None and _comes_before_an_import(module, first) and not early else None
    prints = [event for event in events if event.kind is Kind.PRINT and module.statement(event.node) is not loud]
    context.applied("rank 0 prints", module, prints[0].node if prints else module.tree)


def _by_libraries(context: Context) -> dict[Module, cst.Call]:
    """The files that print where a library calls them, such as for each sample, with a call that does."""
    return {one.module: one.node for one in unfollowed(context.facts) if one.name == python.PRINT}


def _shadow_unseen(context: Context, module: Module, call: cst.Call) -> None:
    frame = context.facts.run.frames.get(module)
    if (frame is not None and "print" in frame.env) or not context.editable(module, call, "text is printed"):
        return
    context.shadow_print(module, None)
    context.plan(module).noted(CODE, module, "rank 0 prints, the others keep quiet")
    context.applied("rank 0 prints", module, call)


def _first_to_print(module: Module, events: list[Event]) -> tree.Statement | None:
    """The first statement of a file in the course of which something is printed."""
    lines = {here.node for event in events for here in event.here.up() if not here.arm}
    return next((statement for statement in module.tree.body if statement in lines), None)


def _comes_before_an_import(module: Module, first: tree.Statement) -> bool:
    """Of those at the top of the file, behind which the new ones go."""
    top = list(takewhile(lambda one: isinstance(one, (cst.SimpleStatementLine, cst.Try)), module.tree.body))
    return first in top and any(map(tree.imports, top[top.index(first) :]))


def _may_be_above(module: Module, first: tree.Statement) -> bool:
    """Whether the runtime may be imported before a statement: it imports torch, which reads the environment then."""
    body = list(module.tree.body)
    above, below = body[: body.index(first)], body[body.index(first) :]
    if any("torch" in tree.code_of(one) for one in above if tree.imports(one)):
        return True
    last = max(number for number, statement in enumerate(below) if tree.imports(statement))
    return not any("environ" in tree.code_of(one) or "putenv" in tree.code_of(one) for one in below[:last])


def _passing_on(context: Context) -> list[Event]:
    """Calls that are given `print` itself; what `functools.partial` makes of it prints where it is called."""
    return [
        event
        for event in context.facts.of_kind(Kind.CALL)
        if not any(isinstance(obj, Partial) for obj in event.value.objs)
        and any(
            isinstance(obj, Ref) and obj.name == python.PRINT for value in event.arguments.all() for obj in value.objs
        )
    ]


def _guard(context: Context, event: Event) -> None:
    if not isinstance(event.module.parents.get(event.node), cst.Expr):  # the number of characters is used
        context.advice("every rank writes to the screen here", event.module, event.node)
        return
    once(context, event, "one rank writes to the screen")
    context.applied("rank 0 writes to the screen", event.module, event.node)


@dataclass
class _Talk:
    """Which statements of the script do nothing but talk, in whatever file: each is judged once."""

    context: Context
    meetings: set[cst.CSTNode]
    known: dict[cst.CSTNode, bool] = field(default_factory=dict)
    guarded: set[cst.CSTNode] = field(default_factory=set)

    def only(self, here: Here) -> bool:
        if here.node not in self.known:
            self.known[here.node] = self._is_only(here)
        return self.known[here.node]

    def _is_only(self, here: Here) -> bool:
        assert isinstance(here.node, cst.SimpleStatementLine)
        small = here.node.body[0]
        if len(here.node.body) > 1 or not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
            return False
        return not any(
            any(up.node is here.node for up in one.here.up())
            for one in self.context.facts.run.events
            if one.node in self.meetings or not _only_talks(one)
        )


def _guard_call(context: Context, event: Event, talk: _Talk) -> bool:
    """Guards the script's own call of a function of another file that does nothing but talk; says if it could."""
    for here in event.here.up():
        node = here.node
        if here.frame.module is not context.entry or here.arm or not isinstance(node, cst.SimpleStatementLine):
            continue
        if not talk.only(here):
            return False
        small = node.body[0]
        rt = context.rt(context.entry)
        plan = context.plan(context.entry)
        if small not in talk.guarded:
            talk.guarded.add(small)
            plan.guard_alone(small, rt, CODE, "one rank writes to the screen")
            context.applied("rank 0 draws it", context.entry, node)
        return True
    return False


def _only_talks(event: Event) -> bool:
    """Nothing that another rank could miss: no state is kept, no data read, and no other rank waited for."""
    if event.kind is Kind.CALL:
        return event.name.startswith(guarded.TALKS) and not reads(event)
    if event.kind is Kind.METHOD:
        return all(isinstance(obj, External) and obj.name.startswith(guarded.TALKS) for obj in event.receiver.objs)
    return event.kind not in (Kind.FORWARD, Kind.STORE)


def _training_figures(context: Context) -> None:
    """What of the training loop stays rank 0's where it is printed. Before that, all ranks load whole batches."""
    if context.shares_forwards:
        return
    left = alone(context.decisions, [*shown_lines(context.facts), *log_records(context.facts)])
    shown = list(left)
    for event in shown[:1]:
        named = ", ".join(dict.fromkeys(f"`{brief(one)}`" for one in left[event]))
        context.advice(f"printed here for rank 0's share of the batch alone: {named}", event.module, event.node)
    divided = ((event, node) for event in shown for node in by_a_whole(context.facts, event))
    for event, node in islice(divided, 1):
        context.advice(
            f"`{tree.code_of(node)}` divides what rank 0's share adds up to by what is the same on all ranks: it is as "
            "many times too small as there are ranks", event.module, node,
        )  # fmt: skip
    counted = ((event, node) for event in shown for node in tree.walk(event.node) if _counts_samples(context, node))
    for event, number in islice(counted, 1):
        context.advice(
            f"`{tree.code_of(number)}` counts the samples of rank 0's shares alone: all ranks together have done as "
            "many times that as there are ranks", event.module, number,
        )  # fmt: skip


def _counts_samples(context: Context, node: cst.CSTNode) -> bool:
    """`number * len(batch)`: how far the epoch is, in samples."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
        return False
    found = {context.facts.value(one).scale for one in (node.left, node.right)}
    training = context.facts.training_loaders
    return found == {Scale.COUNT, Scale.CONST} and any(
        one in training for one in dealt_by(context.facts.value(node).sources)
    )


RULE = Rule(
    code=CODE,
    name="output",
    why="N ranks print N times.",
    safety="`print` becomes rank 0's for the whole file, by one import; calls that only draw on the screen are "
    "put under a guard.",
    run=run,
    pitfalls=(16,),
    examples=(
        Example(
            later="""
            - print(epoch, loss.item())
            + print(epoch, rt.all_reduce_mean(loss.item()))
            """
        ),
        Example(
            torch="import sys\n\n{torch}",
            later="""
            - sys.stdout.write(".")
            + if rt.is_main_process():
            +     sys.stdout.write(".")
            """,
            end="sys.stdout.flush()",
        ),
        LeftAlone(),
    ),
)
