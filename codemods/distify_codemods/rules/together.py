"""A file that is written and read in one `try`: all ranks wait where it is written, and fail there as rank 0 does.

A wait in front of the reading would not do: where rank 0 fails to write and goes on behind the `try`, it is not there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.differing import reached_alike
from distify_codemods.decisions.outside import is_of_a_data_set
from distify_codemods.events import Event, Kind
from distify_codemods.interpreter.frames import CALLED, Frame
from distify_codemods.libraries.registry import Role, tracker
from distify_codemods.program import Module
from distify_codemods.rules import attempts, unequal
from distify_codemods.rules.base import Context


def written(context: Context, event: Event, place: tuple[Module, cst.CSTNode], writes: list[Event]) -> set[Event]:
    """Those of the writes that all ranks wait for where they are made, since they are in an attempt with the event.

    None of them where that cannot be for one.
    """
    inside = attempts.beside(context, event, place, writes)
    alone = attempts.beside(context, event, place, context.writing.values())  # who fails there leaves out the rest
    guards = {one: _guard(context, one) or _open_block(context, one) for one in (*inside, *alone)}
    if any(guard is None or not _all_come(context, one, guard) for one, guard in guards.items()):
        return set()
    for one, guard in guards.items():
        assert guard is not None
        plan, header = context.plan(one.module), f"with {context.rt(one.module)}.fail_together():"
        reason = "rank 0 has written the file before it is read, or all ranks fail as it does"
        if plan.comes_alone(guard):
            plan.guard_together(guard, header, context.code, reason)
        else:
            plan.block_together(guard, header, context.code, reason)
    return set(inside)


def read(context: Context, write: Event, place: tuple[Module, cst.CSTNode], reading: list[Event]) -> bool:
    """Whether all ranks come to where a `try`, or a handler, writes a file, once they fail together where they read it
    before."""
    around = (*attempts.handled(write), *attempts.around(write))
    tried = [here for here in around if any(attempts.holds(here, one) for one in reading)]
    inside = [one for one in reading if any(attempts.holds(here, one) for here in tried)]
    statements = {one: _with_all_that_is_open(one.module, one.node) for one in inside}
    if len(tried) != 1 or place[0] is not tried[0].frame.module:
        return False
    if tried[0].parent is not None and attempts.is_within(tried[0].parent):
        return False
    for one, statement in statements.items():
        is_line = isinstance(statement, (cst.SimpleStatementLine, cst.With))
        is_free = is_line and not context.plan(one.module).has_guard(statement)
        is_apart = attempts.is_in_body(tried[0], one) and statement not in write.module.enclosing(write.node)
        if not is_free or not is_apart or not _all_come(context, one, statement):
            return False
    header = f"with {context.rt(write.module)}.fail_together():"
    for one, statement in statements.items():
        reason = "where it cannot be read on one rank, all ranks go on as it does"
        context.plan(one.module).block_together(statement, header, context.code, reason)
    return True


def _with_all_that_is_open(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    """The statement, or the outermost of the `with` blocks around it."""
    found = module.statement(node)
    while isinstance(around := module.statement(module.parents[found]), cst.With):
        found = around
    return found


def where_they_decide(context: Context, meetings: Collection[cst.CSTNode]) -> None:
    """What rank 0 does alone in a `try`, behind which ranks would else go different ways, or meet, where it fails: all
    fail."""
    for event in context.facts.of_kind(Kind.CALL, Kind.METHOD):
        makes_a_run = _makes_a_run(event)
        guard = event.module.statement(event.node) if makes_a_run else _guard(context, event)
        if guard is None:
            continue
        plan = context.plan(event.module)
        known = plan.guards.get(guard)
        if (known is not None and known.around_it) or not _decides(context, event, guard, meetings):
            continue
        header = f"with {context.rt(event.module)}.fail_together():"
        reason = "where rank 0 fails here, all ranks do: they go on alike"
        if known is not None and known.alone:
            plan.guard_together(guard, header, context.code, reason)
        elif known is None and isinstance(guard, cst.SimpleStatementLine):
            plan.block_together(guard, header, context.code, reason)
        else:
            continue
        context.applied("where rank 0 fails in a `try`, all ranks go on as it does", event.module, event.node)


def _makes_a_run(event: Event) -> bool:
    """Whether it begins an experiment's log, which is rank 0's: only there it asks somebody."""
    known = tracker(event.name) if event.kind is Kind.CALL and isinstance(event.node, cst.Call) else None
    return known is not None and known.role in (Role.RUN, Role.TRACKER)


def _decides(context: Context, event: Event, guard: cst.CSTNode, meetings: Collection[cst.CSTNode]) -> bool:
    if context.runs_beside(event.module, event.node) is not None or context.facts.in_a_model(event):
        return False  # nor do ranks meet there
    of_data = any(is_of_a_data_set(context.facts, here) for here in event.here.up())
    if of_data or not _all_come(context, event, guard, told=True):
        return False
    for here in attempts.around(event):
        if any(attempts.holds(here, one) for one in context.facts.backwards):
            return False  # ranks meet in there anyhow: whoever fails is waited for
        assert isinstance(here.node, (cst.Try, cst.TryStar))
        behind = attempts.behind(here.node, guard)
        if attempts.goes_on_otherwise(here.frame.module, behind):
            return True
        ahead = {*tree.walk(guard), *_enclosing(here.frame.module, guard)}  # of it, if anything, or as it is made
        if any(one in meetings and one not in ahead for statement in behind for one in tree.walk(statement)):
            return True
    return False


def _guard(context: Context, write: Event) -> cst.CSTNode | None:
    """The outermost statement that rank 0 alone comes to."""
    around: Iterable[cst.CSTNode] = (write.node, *write.module.enclosing(write.node))
    found = [node for node in around if context.plan(write.module).comes_alone(node)]
    return found[-1] if found else None


def _open_block(context: Context, write: Event) -> cst.CSTNode | None:
    """The `with` that opens a file which is rank 0's, and nobody's on the others: all ranks go through it."""
    plan = context.plan(write.module)
    for node in write.module.enclosing(write.node):
        calls = [one.item for one in node.items if isinstance(one.item, cst.Call)] if isinstance(node, cst.With) else []
        if any(call in plan.expressions or call.func in plan.expressions for call in calls):
            block = _with_all_that_is_open(write.module, calls[0])
            return None if plan.has_guard(block) else block
    return None


def _all_come(context: Context, write: Event, guard: cst.CSTNode, told: bool = False) -> bool:
    """Whether all ranks come to a guard, however what they do before has ended. told: it is settled by now what files
    they all see as rank 0 does."""
    outside = [here for here in write.here.up() if guard not in (here.node, *_enclosing(here.frame.module, here.node))]
    if context.takes_turns(write) or unequal.in_unequal_turns(context, frozenset(write.turns)):
        return False
    if any(here.arm.startswith("handler") or not _is_told(context, here.frame.module, here.node) for here in outside):
        return False

    def left_before(frame: Frame) -> bool:
        return context.may_have_left(write, frame, lambda node: not (told and _is_told(context, frame.module, node)))

    called = (here.frame for here in outside if here.arm == CALLED)
    return reached_alike(context.facts, write) and not any(map(left_before, called))


def _enclosing(module: Module, node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    return module.enclosing(node) if node in module.parents else ()


def _is_told(context: Context, module: Module, node: cst.CSTNode) -> bool:
    """Whether it is no branch on what files there are, nor a loop over them, or on those that rank 0 sees."""
    if isinstance(node, cst.For):
        asks, asked = "file" in context.facts.value(node.iter).sources, node.iter
    elif isinstance(node, cst.If):
        asks, asked = context.asks_the_disk(node), node.test
    else:
        return True
    return not asks or any(one in context.plan(module).told for one in tree.walk(asked))
