"""What ranks draw apart between passes over the data, and keep: an order, a shift, other weights of a frozen module.

In a stretch each rank draws for its own batches. What is drawn there outside of a batch's turn is for all samples:
harmless only where it is seen to end in what is shown or written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.control_flow import parameters_of
from distify_codemods.decisions import streams
from distify_codemods.decisions.base import Decisions, Link, chain
from distify_codemods.decisions.own_streams import has_a_stream_of_its_own
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core, root
from distify_codemods.libraries import drawing, effects, guarded
from distify_codemods.naming import brief
from distify_codemods.objects import Bound, External, Function, Instance, Method
from distify_codemods.program import Module
from distify_codemods.values import NOTHING

#: What is done with a number on its way, in an expression.
_PARTS = (
    cst.Arg, cst.Attribute, cst.BinaryOperation, cst.UnaryOperation, cst.Subscript, cst.SubscriptElement, cst.Index,
    cst.Slice, cst.FormattedStringExpression, cst.FormattedString, cst.Tuple, cst.Element,
)  # fmt: skip
#: Libraries whose functions keep nothing of what they are given, but for what they write.
_COMPUTING = ("torch.", "torchvision.", "numpy.", "math.", "matplotlib.", "logging.", "tqdm.", "PIL.", "einops.")
_OF_NUMBERS = frozenset(f"builtins.{name}" for name in "abs float int len max min print repr round str sum".split())
_SCOPES = (cst.FunctionDef, cst.Lambda, cst.Module)


def never_apart(decisions: Decisions) -> Iterator[Link]:
    """In the turns of a loop that trains something is made anew, which all ranks have to draw alike."""
    apart = {(one.node, one.frame.context) for one in streams.stretches(decisions)}
    for loop in decisions.facts.training_loops if not decisions.slicings else ():
        if not any((node, frame.context) in apart for frame, node in chain(loop.event)):
            yield Link(
                loop.module, loop.node,
                "a model, its weights or training data are made in the turns of this loop, where all ranks draw alike: "
                "what is drawn for their samples would be alike, too",
                "what is made before it could be drawn alike, and all else apart",
            )  # fmt: skip


def drawn_between_passes(decisions: Decisions) -> Iterator[Link]:
    """Draws that are for all samples, where every rank has another."""
    facts = decisions.facts
    apart = streams.stretches(decisions) if not decisions.slicings else []
    turns = [loop.event for loop in facts.loops]
    alike = {event.node for event in streams.choices(facts)}
    alike |= {one.node for one in decisions.averages if one.told}
    for event in facts.of_kind(Kind.CALL, Kind.METHOD) if apart else ():
        if not draws(event) or facts.in_a_model(event) or any(map(event.inside, turns)):
            continue
        told = event.node in alike or any(one in alike for one in event.module.enclosing(event.node))
        if not told and any(one.holds(event) for one in apart) and not _is_harmless(facts, event):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` draws between passes over the data, where each rank draws other numbers: what "
                "comes of it may be for the samples of all",
                "numbers that are drawn before training, or from a generator with a seed of its own, are the same on "
                "all ranks",
            )  # fmt: skip


def drawing_header(facts: Facts, stretch: streams.Stretch) -> cst.BaseExpression | None:
    """What a training loop goes through, where making that draws numbers, or is not known not to."""
    if not isinstance(stretch.node, cst.For):
        return None
    header = stretch.node.iter
    calls = [node for node in tree.walk(header) if isinstance(node, cst.Call)]
    if not all(facts.value(one.func).objs for one in calls):
        return header
    drawing = (event for event in facts.run.events if calls and draws(event) and not stretch.holds(event))
    return header if any(stretch.reaches(event) for event in drawing) else None


def draws(event: Event) -> bool:
    """Whether random numbers come from what all of the process draws from."""
    if has_a_stream_of_its_own(event):
        return False
    if event.kind is Kind.METHOD and event.name == "sample":
        roots = [core(obj) for obj in event.receiver.objs]
        return any(isinstance(obj, External) and obj.name.startswith("pandas.") for obj in roots)
    return streams.draws_by_itself(event) or (event.kind is Kind.CALL and drawing.draws(event.name))


def _is_harmless(facts: Facts, event: Event) -> bool:
    """Whether all that comes of it is shown or written."""
    if event.name.endswith("_") or event.name.endswith("shuffle"):
        return False  # into something that is there already
    return _ends_here(facts, event.module, event.node, set())


def _ends_here(facts: Facts, module: Module, node: cst.CSTNode, seen: set[cst.CSTNode]) -> bool:
    inner = node
    for outer in module.enclosing(node):
        if isinstance(outer, cst.Expr):
            return not _learns(facts, outer)
        if isinstance(outer, cst.Return):  # to where the function is called from, which is followed there
            return any(one in seen for one in module.enclosing(outer) if isinstance(one, _SCOPES))
        if isinstance(outer, cst.Assign):
            return _names_end_here(facts, module, outer, seen)
        passes = isinstance(outer, cst.Call) and (
            inner is outer.func or _only_computes(facts, outer) or _is_followed(facts, outer, seen)
        )
        if not passes and not isinstance(outer, _PARTS):
            return False
        inner = outer
    return False


def _learns(facts: Facts, statement: cst.Expr) -> bool:
    """`loss.backward()`: what goes into that is neither shown nor written."""
    inside = set(tree.walk(statement))
    return any(event.node in inside for event in facts.backwards)


def _only_computes(facts: Facts, call: cst.Call) -> bool:
    """Whether a call keeps nothing of what it is given: a module's, a print, a log, a function of torch."""
    calls = facts.of_kind(Kind.CALL, Kind.FORWARD, Kind.METHOD, Kind.PRINT)
    found = [event for event in calls if event.node is call]
    return bool(found) and all(map(_keeps_nothing, found))


def _keeps_nothing(event: Event) -> bool:
    if event.kind is Kind.METHOD:
        of = [one.name for one in map(root, event.receiver.objs) if isinstance(one, External)]
        return any(effects.is_tracker(name) or name.startswith(guarded.PLOTS) for name in of)
    return event.kind is not Kind.CALL or event.name.startswith(_COMPUTING) or event.name in _OF_NUMBERS


def _is_followed(facts: Facts, call: cst.Call, seen: set[cst.CSTNode]) -> bool:
    """Whether a call is of functions of the project, and they keep nothing of their arguments, but for what they give
    back."""
    functions = [one for obj in facts.value(call.func).objs for one in _functions(obj)]
    return bool(functions) and all(one is not None and _keeps_no_argument(facts, one, seen) for one in functions)


def _functions(called: Obj) -> list[Function | None]:
    """None for what is not known: a method of a wrapped model is one of its class."""
    if isinstance(called, Bound):
        return [called.function]
    if not isinstance(called, Method):
        return [called if isinstance(called, Function) else None]
    found: list[Function | None] = []
    for obj in map(core, called.receiver.objs if called.receiver is not None else ()):
        owners = obj.of.order if isinstance(obj, Instance) and obj.of is not None else []
        value = next((one.attributes[called.name] for one in owners if called.name in one.attributes), NOTHING)
        found += [one if isinstance(one, Function) else None for one in value.objs] or [None]
    return found or [None]


def _keeps_no_argument(facts: Facts, function: Function, seen: set[cst.CSTNode]) -> bool:
    scope = function.node
    if not isinstance(scope, cst.FunctionDef) or scope.asynchronous is not None:
        return False
    if scope in seen:
        return True
    seen.add(scope)
    given = parameters_of(scope)[function.owner is not None :]
    generates = any(isinstance(one, cst.Yield) for one in tree.walk(scope))
    return not generates and _all_end_here(facts, facts.module_of(scope), given, seen)


def _names_end_here(facts: Facts, module: Module, assign: cst.Assign, seen: set[cst.CSTNode]) -> bool:
    """Whether this holds for all that is done with the names that it is given."""
    if assign in seen:
        return True
    seen.add(assign)
    names = [one.target for one in assign.targets]
    return all(isinstance(one, cst.Name) for one in names) and _all_end_here(facts, module, names, seen)


def _all_end_here(facts: Facts, module: Module, bound: Iterable[cst.CSTNode], seen: set[cst.CSTNode]) -> bool:
    """Whether this holds wherever these bindings are read; no other function may see them."""
    return all(
        module.scope(read) is module.scope(one) and _ends_here(facts, module, read, seen)
        for one in bound
        for read in module.flow(one).uses(one)
    )
