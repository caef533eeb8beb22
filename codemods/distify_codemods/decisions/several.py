"""What stands for several objects in the analysis: made in a loop that is not followed turn by turn, or by recursion.

A name that holds one of these holds, as the program runs, one object of several. A line that is to reach all of them
needs the list or dictionary that has them, or has to be run for each.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.allocation import CallChain, Obj, Turn
from distify_codemods.decisions.names import bound_by
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import contained, core
from distify_codemods.interpreter.frames import Frame
from distify_codemods.objects import Bound, Class, Function, Instance, Partial, Sequence
from distify_codemods.program import Module
from distify_codemods.values import NOTHING, Value

#: What may run a part of itself more than once.
REPEATING = (cst.For, cst.While, cst.BaseComp)
_FUNCTIONS = (cst.FunctionDef, cst.Lambda)

#: Calls, and turns of loops that are followed, with a place at the end.
Steps = tuple[cst.CSTNode | Turn, ...]
#: A loop, in one activation of its function; or a call by which a function may be run several times.
_Repeating = tuple[CallChain, cst.CSTNode]


def reaches_all(facts: Facts, wanted: Obj, frame: Frame, statement: cst.CSTNode, name: str, held: Value) -> bool:
    """Whether an expression that begins with a name, at a statement, reaches all that an object stands for.

    held: what the expression is: the object, or a list or dictionary with it.
    """
    if wanted.site is None:
        return True
    repeating = _repeating(facts, (*wanted.context, wanted.site)) - _repeating(facts, (*frame.context, statement))
    if not repeating or not _are_kept(facts, wanted, repeating):
        return True
    if any(core(obj) is wanted for obj in held.objs):
        root = {**frame.bound, **frame.env}.get(name, NOTHING)
        is_root = any(core(obj) is wanted for obj in root.objs)
        is_last = any(chain == frame.context for chain, _ in repeating)  # of a loop of this activation that is over
        of_turn = _is_of_this_turn(frame, statement, name, root, is_last)
        return (is_root or _made_in(facts, root, repeating)) and of_turn
    return not _made_in(facts, held, repeating)


def _made_in(facts: Facts, value: Value, repeating: set[_Repeating]) -> bool:
    sites = [(*obj.context, obj.site) for obj in value.objs if obj.site is not None]
    return any(_repeating(facts, steps) & repeating for steps in sites)


def _repeating(facts: Facts, steps: Steps) -> set[_Repeating]:
    """What may come to the last of these steps several times, though each of those before it is taken once."""
    followed = {step.loop for step in steps if isinstance(step, Turn)}
    found: set[_Repeating] = set()
    for depth, node in enumerate(steps):
        if isinstance(node, Turn):
            continue
        loops = loops_around(facts.module_of(node), node)
        found.update((CallChain(steps[:depth]), loop) for loop in loops if loop not in followed)
        if depth + 1 < len(steps) and not runs_once(facts, steps, depth):
            found.add((CallChain(steps[:depth]), node))
    return found


def runs_once(facts: Facts, steps: Steps, depth: int) -> bool:
    """Whether the call at a step runs the function of the next one once, and is not itself within a run of it."""
    node = steps[depth]
    function = next((function_around(facts, one) for one in steps[depth + 1 :] if not isinstance(one, Turn)), None)
    if function is None or isinstance(node, Turn):
        return True
    if isinstance(node, cst.Call) and not any(_is_of(obj, function) for obj in facts.value(node.func).objs):
        return False  # it is handed to something that calls it
    outer = (function_around(facts, one) for one in steps[: depth + 1] if not isinstance(one, Turn))
    return not isinstance(node, REPEATING) and function not in outer


def _is_of(obj: Obj, function: cst.CSTNode) -> bool:
    """Whether to call an object runs a function."""
    if isinstance(obj, Function):
        return obj.node is function
    if isinstance(obj, Bound):
        return obj.function is not None and obj.function.node is function
    if isinstance(obj, Partial):
        return obj.function is not None and any(_is_of(one, function) for one in obj.function.objs)
    cls = obj.of if isinstance(obj, Instance) else obj
    own = [one for each in cls.order for one in each.attributes.values()] if isinstance(cls, Class) else []
    return any(isinstance(one, Function) and one.node is function for value in own for one in value.objs)


def _are_kept(facts: Facts, wanted: Obj, repeating: set[_Repeating]) -> bool:
    """Whether there is a list or dictionary of them. Without one, each takes the place of the one before it."""
    if any(isinstance(node, cst.Call) for _, node in repeating):
        return True
    collections = {obj for value in facts.run.values.values() for obj in value.objs}
    held = (one.element if isinstance(one, Sequence) else getattr(one, "rest", None) for one in collections)
    if any(wanted is core(obj) for value in held if value is not None for obj in contained(value)):
        return True
    return any(
        event.name in _KEEPING
        and any(wanted is core(obj) for value in event.arguments.all() for obj in contained(value))
        for event in facts.of_kind(Kind.METHOD)
    )


_KEEPING = ("append", "insert", "extend", "add_module", "register_module", "update", "__setitem__")


def _is_of_this_turn(frame: Frame, statement: cst.CSTNode, name: str, held: Value, by_loops: bool) -> bool:
    """Whether a name is given one of them after the other, and no second name in the same course.

    by_loops: in the turns of loops around the statement alone, not by calls of its function.
    """
    own = set() if by_loops else set(frame.bound)
    for outer, _ in around(frame.module, statement):
        if isinstance(outer, (cst.For, cst.While)):
            own |= bound_by(outer)
    names = {**frame.bound, **frame.env}.items()
    return name in own and {other for other, value in names if other in own and value.objs & held.objs} <= {name}


def around(module: Module, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """What is around a node within its function, each with the part of it that the node is in."""
    inner = node
    for outer in module.enclosing(node):
        if isinstance(outer, _FUNCTIONS):
            return
        yield outer, inner
        inner = outer


def loops_around(module: Module, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The loops that run a node again in each turn: not one that only goes through what the node makes."""
    for outer, inner in around(module, node):
        if isinstance(outer, REPEATING) and not (isinstance(outer, cst.For) and inner is outer.iter):
            yield outer


def repeated_by(facts: Facts, event: Event) -> Iterator[cst.CSTNode]:
    """The loops and comprehensions in whose turns an event happens again, across calls."""
    for step in (*event.here.frame.context, event.node):
        node = step.loop if isinstance(step, Turn) else step
        if isinstance(step, Turn):
            yield node
        yield from loops_around(facts.module_of(node), node)


def function_around(facts: Facts, node: cst.CSTNode) -> cst.CSTNode | None:
    found = facts.module_of(node).function(node)
    return None if isinstance(found, cst.Module) else found
