"""Decisions and figures that would differ from rank to rank: what they hang on is averaged where that is a mean.

A test on the training loss, say, is taken by every rank on its own share of the batch. The mean over equal shares is
the figure of before, so that all ranks decide alike, and as one process would.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Averaging
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, dealt_by, wrapped
from distify_codemods.program import Module
from distify_codemods.values import External, Obj, Scale, Share

_ORDERS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
_CHECKS = frozenset(
    f"{library}.{name}" for library in ("torch", "math", "numpy") for name in ("isnan", "isinf", "isfinite")
)


def averages(facts: Facts) -> tuple[Averaging, ...]:
    """The figures behind decisions that differ, where the mean over the ranks is what one process would have."""
    found: dict[cst.CSTNode, Averaging] = {}
    checks = {event.node for event in facts.calls(*_CHECKS)}
    tests = [
        (event, event.node)
        for event in facts.of_kind(Kind.TEST)
        if isinstance(event.node, (cst.If, cst.While)) and differs(facts, event)
    ]
    decisive = [(event, node) for event, node in tests if matters(facts, event)]
    if any(_figures(facts, event.module, node.test, checks) is None for event, node in decisive):
        decisive = tests  # what it hangs on was itself decided: by a counter of good turns, say
    for event, branch in decisive:
        for figure in _figures(facts, event.module, branch.test, checks) or ():
            found[figure] = Averaging(event.module, figure, "all ranks decide on the mean over the global batch")
    for event in facts.of_kind(Kind.METHOD):
        argument = _of_scheduler(event)
        if rate_differs(facts, event) and argument is not None and _is_mean(facts, argument):
            found[argument] = Averaging(event.module, argument, "all ranks set their rate by the same figure")
    for module, node in _shown(facts):
        found.setdefault(node, Averaging(module, node, "shown for the samples of all ranks"))
    return tuple(found.values())


def _figures(
    facts: Facts, module: Module, node: cst.BaseExpression, checks: set[cst.CSTNode]
) -> list[cst.BaseExpression] | None:
    """What of a test must be averaged, so that it no longer differs; None where that is not known."""
    if not why_different(facts, facts.value(node).sources):
        return []
    parts: list[cst.BaseExpression]
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        parts = [node.expression]
    elif isinstance(node, cst.BooleanOperation):
        parts = [node.left, node.right]
    elif isinstance(node, cst.Comparison) and all(isinstance(one.operator, _ORDERS) for one in node.comparisons):
        operands = [node.left, *(one.comparator for one in node.comparisons)]
        own = [one for one in operands if why_different(facts, facts.value(one).sources)]
        return own if all(_is_mean(facts, one) for one in own) else None
    elif isinstance(node, cst.Call) and node in checks and node.args:
        return [node.args[0].value] if _is_mean(facts, node.args[0].value) else None
    else:
        return None
    found = [_figures(facts, module, part, checks) for part in parts]
    if any(one is None for one in found):
        return None
    return [node for one in found for node in one or ()]


def _is_mean(facts: Facts, node: cst.BaseExpression) -> bool:
    return facts.value(node).scale is Scale.MEAN


def _of_scheduler(event: Event) -> cst.BaseExpression | None:
    return event.node.args[0].value if isinstance(event.node, cst.Call) and event.node.args else None


def _shown(facts: Facts) -> Iterator[tuple[Module, cst.BaseExpression]]:
    """`hits / seen` every few batches: counts of one rank's samples, divided by one another; and what stands by."""
    loops = [loop.event for loop in facts.training_loops]
    for event in facts.of_kind(Kind.PRINT):
        sometimes = any(
            isinstance(here.node, cst.If) and any(isinstance(node, cst.Modulo) for node in tree.walk(here.node.test))
            for here in event.here.up()
        )
        if not sometimes or not any(event.inside(loop) for loop in loops):
            continue
        if not any(
            isinstance(node, cst.BinaryOperation) and _is_share_of_counts(facts, node) for node in tree.walk(event.node)
        ):
            continue
        queue: list[cst.CSTNode] = [event.node]
        while queue:
            node = queue.pop()
            own = isinstance(node, cst.BaseExpression) and facts.value(node)
            if (
                own
                and isinstance(node, cst.BaseExpression)
                and own.scale is Scale.MEAN
                and why_different(facts, own.sources)
            ):
                yield event.module, node
            else:
                queue += node.children


def _is_share_of_counts(facts: Facts, node: cst.BinaryOperation) -> bool:
    counted = any(
        isinstance(inner, cst.BinaryOperation)
        and isinstance(inner.operator, cst.Divide)
        and facts.value(inner.left).scale in (Scale.SUM, Scale.COUNT)
        and facts.value(inner.right).scale in (Scale.COUNT, Scale.SUM)
        for inner in tree.walk(node)
    )
    return counted and _is_mean(facts, node) and bool(why_different(facts, facts.value(node).sources))


# ---- what differs


def differs(facts: Facts, event: Event) -> str:
    """Why the outcome of a test is a rank's own."""
    return why_different(facts, event.value.sources)


def why_different(facts: Facts, sources: frozenset[Obj | str]) -> str:
    training = facts.training_loaders
    for loader in dealt_by(sources):
        if loader in training or isinstance(loader, Share):
            return "depends on the training loss or batch of one rank"
    if "time" in sources:
        return "depends on the time"
    if "random" in sources and facts.backwards and facts.run.cutting is None:
        return "depends on chance"
    return ""


def matters(facts: Facts, test: Event) -> bool:
    """Whether what it decides touches the other ranks, or what is kept of the run."""
    if not facts.training_loops or not _in_training_run(facts, test):
        return False
    for event in facts.run.events:
        if event.number > test.number and _guarded_by(event, test) and _consequence(facts, event):
            return True
    return isinstance(test.node, cst.While)


def _in_training_run(facts: Facts, test: Event) -> bool:
    first = min(loop.event.number for loop in facts.training_loops)
    return test.number >= first or isinstance(test.node, cst.While)


def _guarded_by(event: Event, test: Event) -> bool:
    return any(
        here.node is test.node and here.arm and here.frame.context == test.here.frame.context
        for here in event.here.up()
    )


def _consequence(facts: Facts, event: Event) -> bool:
    if event in facts.backwards or event in facts.steps:
        return True
    if event.kind is Kind.FORWARD:
        return bool(wrapped(event.receiver)) and event.grad
    if event.kind is Kind.CALL and event.name == "torch.save":
        return True
    if event.kind is Kind.LEAVE:
        return event.name != "raise" and _ends_training(facts, event)
    if event.kind is Kind.METHOD and event.name == "step":
        return True
    return event.kind is Kind.LOOP and any(loop.event.node is event.node for loop in facts.loops)


def _ends_training(facts: Facts, event: Event) -> bool:
    """`break`, `continue` and `return` where a training or evaluation loop goes on, or would have begun."""
    if event.name == "exit":
        return True
    frames = {loop.event.here.frame.node for loop in facts.loops}
    outer = {here.node for loop in facts.loops for here in loop.event.here.up()}
    if event.name == "return":
        return event.here.frame.node in frames
    loops = [here.node for here in event.here.up() if isinstance(here.node, (cst.For, cst.While)) and here.arm]
    inner = loops[0] if loops else None
    return inner in outer or any(loop.node is inner for loop in facts.loops)


def rate_differs(facts: Facts, event: Event) -> str:
    """Why the learning rate that is set here is a rank's own."""
    if event.kind is Kind.STORE:
        target = event.node
        if event.name == "[]" and isinstance(target, cst.Subscript) and isinstance(target.slice[0].slice, cst.Index):
            key = target.slice[0].slice.value
            if isinstance(key, cst.SimpleString) and key.evaluated_value == "lr":
                return why_different(facts, event.value.sources)
        return ""
    schedulers = [obj for obj in event.receiver.objs if isinstance(obj, External) and "lr_scheduler" in obj.name]
    if event.name == "step" and schedulers and event.arguments.positional:
        return why_different(facts, event.arguments.positional[0].sources)
    return ""
