"""Steps that fail on one rank, and that the program goes on from: the others would wait for that rank's gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.base import Link
from distify_codemods.events import Here, Kind
from distify_codemods.facts import Facts
from distify_codemods.libraries.python import SUPPRESSES
from distify_codemods.objects import External, Function, Instance, Suspended
from distify_codemods.values import NOTHING

#: What ends a run, or a pass over data; and what a program's own text is wrong in, on all ranks alike: a call that an
#: older model does not take, say.
_HARMLESS = frozenset(
    "StopIteration KeyboardInterrupt SystemExit ImportError EOFError ModuleNotFoundError "
    "TypeError AttributeError NameError NotImplementedError".split()
)
_TRIES = (cst.Try, cst.TryStar)


def links(facts: Facts) -> Iterator[Link]:
    """`except RuntimeError:` around a part of a training step, or a `with` that passes over errors."""
    loops = {loop.node for loop in facts.training_loops}
    parts = [*facts.backwards, *facts.steps, *(one for one in facts.of_kind(Kind.FORWARD) if one.grad)]
    for event in parts:
        for here in event.here.up():
            if here.node in loops:
                break
            place = _passes_over(facts, here) if here.arm == "body" and facts.in_training(event) else None
            if place is not None:
                yield Link(
                    here.frame.module, place, "a step that fails on one rank is passed over there, and the "
                    "others would wait for its gradients",
                )  # fmt: skip


def _passes_over(facts: Facts, around: Here) -> cst.CSTNode | None:
    """What of a statement passes over an error in its body."""
    if isinstance(around.node, _TRIES):
        return next(filter(_goes_on, around.node.handlers), None)
    items = around.node.items if isinstance(around.node, cst.With) else ()
    return next((one.item for one in items if _swallows(facts, one.item)), None)


def _goes_on(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> bool:
    return not tree.caught(handler) <= _HARMLESS and not tree.raises_again(handler)


def _swallows(facts: Facts, manager: cst.BaseExpression) -> bool:
    """Whether a context manager may: `contextlib.suppress`, or one of the script's own."""
    for obj in facts.value(manager).objs:
        if isinstance(obj, External) and obj.name == SUPPRESSES:
            given = manager.args if isinstance(manager, cst.Call) else ()
            if not given or any(_last_name(one.value) not in _HARMLESS for one in given):
                return True
        if isinstance(obj, Instance) and obj.of is not None:
            leaving = (obj.of.member("__exit__") or NOTHING).objs
            if any(_may_be_true(one.node) for one in leaving if isinstance(one, Function)):
                return True
        if isinstance(obj, Suspended) and obj.function is not None and _goes_on_from_its_yield(obj.function.node):
            return True
    return False


def _last_name(error: cst.BaseExpression) -> str:
    return (tree.dotted(error) or "").rpartition(".")[2]


def _may_be_true(function: cst.CSTNode | None) -> bool:
    """Whether a function may return something else than None and False."""
    given = (one.value for one in _within(function) if isinstance(one, cst.Return))
    return any(value is not None and tree.dotted(value) not in ("None", "False") for value in given)


def _goes_on_from_its_yield(function: cst.CSTNode | None) -> bool:
    tries = (one for one in _within(function) if isinstance(one, _TRIES))
    return any(
        any(map(_goes_on, one.handlers)) and any(isinstance(inner, cst.Yield) for inner in tree.walk(one.body))
        for one in tries
    )


def _within(function: cst.CSTNode | None) -> Iterable[cst.CSTNode]:
    return tree.walk(function) if function is not None else ()
