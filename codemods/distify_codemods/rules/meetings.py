"""MEET01: ranks meet where all of them come, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from distify_codemods import half_done, tree
from distify_codemods.decisions.base import Sharding
from distify_codemods.events import Event, Kind
from distify_codemods.inside import core
from distify_codemods.interpreter.frames import Frame
from distify_codemods.libraries import runtime
from distify_codemods.plan import Plan
from distify_codemods.program import Module
from distify_codemods.rules import together
from distify_codemods.rules.alone import Alone
from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import LeftAlone

CODE = "MEET01"
_FUNCTIONS = (cst.FunctionDef, cst.Lambda, cst.Module)
_LOOPS = (cst.For, cst.While)


def run(context: Context) -> None:
    together.where_they_decide(context, _leading_to_meetings(context))
    tests = {event.node for event in context.facts.of_kind(Kind.TEST) if _asks_for_rank(context, event)}
    parted = _Parted(context, tests)
    found = False
    alone, in_turns = Alone(context), Alone(context, in_turns=True)
    for module, node, beside, first in _meetings(context):
        if not first and in_turns.holds(module, node, beside):
            found = True
            context.needs_you(
                "ranks meet here, where the conversion would let them come one after the other, for a download",
                module, module.statement(node),
                "download in a statement of its own, before the ranks meet",
            )  # fmt: skip
        elif alone.holds(module, node, beside):
            found = True
            context.needs_you(
                "ranks meet here, and the conversion would let rank 0 alone come, which writes something there",
                module, module.statement(node),
                "compute what is written before the statement that writes it",
            )  # fmt: skip
        elif (start := context.runs_beside(module, node)) is not None:
            found = True
            context.needs_you(
                f"ranks meet here, in what `{start.name}` runs beside the script (line "
                f"{start.module.place(start.node).line}), where they come in any order",
                module, module.statement(node),
                "do it before that is started, and hand over what came of it",
            )  # fmt: skip
        elif parted.holds(module, node):
            found = True
            context.needs_you(
                "ranks meet here, and a test of the script's own lets only some of them come",
                module, module.statement(node),
                "take it out of the test: the conversion prints and writes on rank 0 alone",
            )  # fmt: skip
    if not found:
        context.not_needed_if_known("wherever ranks meet, all of them come")


def _leading_to_meetings(context: Context) -> set[cst.CSTNode]:
    """Where ranks meet, and the calls of functions in which they do."""
    places = [(module, node) for module, node, _, _ in _meetings(context)]
    functions = {module.function(node) for module, node in places}
    frames = {event.here.frame for event in context.facts.run.events}
    calls = {step for frame in frames if frame.node in functions for step in frame.context}
    return {*(node for _, node in places), *(one for one in calls if isinstance(one, cst.CSTNode))}


def _asks_for_rank(context: Context, test: Event) -> bool:
    node = test.node
    return isinstance(node, (cst.If, cst.While, cst.IfExp)) and half_done.asks_for_rank(context.facts, node.test)


class _Parted:
    """Where not all ranks come: under tests that ask for the rank, and behind what leaves under one."""

    def __init__(self, context: Context, tests: set[cst.CSTNode]) -> None:
        self.tests = tests
        self.facts = context.facts
        self.leaves = [
            event for event in self.facts.of_kind(Kind.LEAVE)
            if event.name != "raise" and any(here.arm and here.node in tests for here in event.here.up())
        ]  # fmt: skip
        self.left_in: dict[Frame, list[Event]] = {}
        for leave in self.leaves:
            self.left_in.setdefault(leave.here.frame, []).append(leave)
        events = self.facts.run.events if tests else []
        self.functions = {function for event in events for function in self._called_for_some(event)}

    def holds(self, module: Module, node: cst.CSTNode) -> bool:
        """Whether a node is in such a place; a test that stands inside of it does not part those who come to it."""
        around = module.enclosing(node)
        for inner, outer in zip((node, *around), around, strict=False):
            if isinstance(outer, _FUNCTIONS):
                return outer in self.functions or any(self._is_behind(leave, module, node) for leave in self.leaves)
            if outer in self.tests and inner is not getattr(outer, "test", None):
                return True
            if isinstance(outer, cst.BooleanOperation) and self._is_second(outer, inner):
                return True
        return False

    def _is_second(self, node: cst.BooleanOperation, part: cst.CSTNode) -> bool:
        """Whether a part is only looked at where a test of the rank has come out one way."""
        return part is node.right and half_done.asks_for_rank(self.facts, node.left)

    def _called_for_some(self, event: Event) -> Iterator[cst.CSTNode]:
        """The functions that run when it happens, and that not all ranks come to."""
        below: list[cst.CSTNode] = []
        for here in event.here.up():
            frame = here.frame
            left = self.left_in.get(frame, ())
            behind = any(leave.before(event) and _leaves(leave, here.node) for leave in left)
            if behind or (here.arm and here.node in self.tests):
                yield from (function for function in below if function is not frame.node)
                return
            below.append(frame.node)

    def _is_behind(self, leave: Event, module: Module, node: cst.CSTNode) -> bool:
        """Whether a node of the same function comes after what leaves it, or its loop; also in a loop's next turn."""
        if leave.module is not module:
            return False
        if module.function(leave.node) is not module.function(node):
            return False
        if leave.name in ("break", "continue"):
            around = module.enclosing(leave.node)
            return next((one for one in around if isinstance(one, _LOOPS)), None) in module.enclosing(node)
        statement = module.statement(leave.node)
        return module.flow(statement).follows(statement, node)


def _leaves(leave: Event, node: cst.CSTNode) -> bool:
    """Whether some ranks do not come to a statement of the frame that they may have left, or whose loop."""
    if leave.name in ("return", "exit"):
        return True
    own = next(one for one in leave.module.enclosing(leave.node) if isinstance(one, _LOOPS))
    return own in leave.module.enclosing(node)


# ---- where the ranks of the converted program meet


def _meetings(context: Context) -> Iterator[tuple[Module, cst.CSTNode, bool, bool]]:
    """What is written into it, training, evaluations that are shared.

    Also whether it stands beside the node, and whether rank 0 may come first and go on.
    """
    for module, plan in list(context.plans.items()):
        rt = context.aliases.get((module, "rt"))
        for node, code, beside in _written(plan) if rt else ():
            met = set(re.findall(rf"\b{rt}\.(\w+)", code)) - runtime.BY_ITSELF
            if met:
                yield module, node, beside, met <= runtime.RANK_0_GOES_ON
    for wrap in context.decisions.wraps:
        yield wrap.module, wrap.statement, True, False
    for event in context.facts.backwards:
        yield event.module, event.node, False, False
    yield from ((module, node, False, False) for module, node in _shared_passes(context))
    for loop in context.facts.evaluation_loops:
        if context.decisions.dealt_in(loop) & {Sharding.SUMS, Sharding.GATHERED}:
            yield loop.module, loop.node, False, False


def _shared_passes(context: Context) -> Iterator[tuple[Module, cst.CSTNode]]:
    """The calls of models whose forward passes are shared."""
    held = {one.held for one in context.decisions.shared}
    for event in context.facts.of_kind(Kind.FORWARD) if held else ():
        if any(core(obj) in held for obj in event.receiver.objs):
            yield event.module, event.node


def _written(plan: Plan) -> Iterator[tuple[cst.CSTNode, str, bool]]:
    """The code that the edits of a file bring, where, and whether it stands beside that."""
    for table in (plan.before, plan.after):
        for statement, lines in table.items():
            yield from ((statement, line.code, True) for line in lines)
    for statement, guard in plan.guards.items():
        yield statement, f"{guard.around_it} {guard.header}", True
    for node, rewrites in plan.expressions.items():
        assert isinstance(node, cst.BaseExpression)
        yield from ((node, tree.code_of(rewrite(node)), False) for rewrite in rewrites.values())
    for call, keywords in plan.keywords.items():
        for value in keywords.values():
            code = value if isinstance(value, str) or value is None else tree.code_of(value(cst.Name("_")))
            yield call, code or "", False


RULE = Rule(
    code=CODE,
    name="meetings",
    why="A rank that waits where the others never come waits until a time limit ends the run.",
    safety="When all edits are known, it is looked whether any lets ranks meet under an `if rt.is_main_process():` "
    "of the conversion, or under a test of the script's own that asks which rank it is, also in functions that are "
    "called there, or under `with rt.main_process_first():`, where they come one after the other, or in what threads "
    "and processes run that the script starts by itself, in any order; then it needs you. Where rank 0 fails in a "
    "`try` at what it does alone, all ranks do, if what comes behind depends on it.",
    run=run,
    pitfalls=(17,),
    examples=(LeftAlone(), LeftAlone(end="print(loss.item())")),
)
