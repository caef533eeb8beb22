"""Who asks the world outside of the process: rank 0 alone, and all ranks hear the answer.

A server that is asked by N ranks counts N questions, and may answer each of them otherwise. A connection is rank 0's;
the other ranks have something in its place that takes every call, so that whatever is not a plain call needs a person.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.differing import reached_alike
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import Facts, dealt_by, given_to
from distify_codemods.file_events import tells_only
from distify_codemods.inside import root
from distify_codemods.libraries import outside
from distify_codemods.libraries.datasets import is_data_set
from distify_codemods.objects import Arguments, Bound, Class, External, Function, Instance
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.values import Value

_OF_DATA_SETS = frozenset({"__getitem__", "__getitems__", "__iter__", "__next__", "__len__"})
_HEAR = "all ranks take rank 0's answer, and each would ask"


class Doing(Enum):
    ONCE = "rank 0 alone does it"
    HEARD = "rank 0 alone does it, and what comes of it is sent to all"
    MADE = "rank 0 alone has it, the others have something in its place"
    LEFT = "each rank does it for its own samples"
    BLOCKED = "a person has to see to it"


@dataclass(frozen=True)
class Asking:
    """What becomes of a call, or of another use of a connection."""

    event: Event | None
    module: Module
    node: cst.CSTNode
    doing: Doing
    why: str = ""


def askings(facts: Facts) -> list[Asking]:
    """Each place once; of several ways that a place is come to, the worst."""
    found: dict[cst.CSTNode, Asking] = {}
    order = list(Doing)
    for one in (*_questions(facts), *_connections(facts)):
        known = found.get(one.node)
        if known is None or order.index(one.doing) > order.index(known.doing):
            found[one.node] = one
    return list(found.values())


def _questions(facts: Facts) -> Iterator[Asking]:
    for event in facts.of_kind(Kind.CALL):
        if event.name.startswith(outside.ASYNCHRONOUS):
            yield _blocked(event, "every rank asks somebody outside here, and no rank can wait for another in between")
        elif outside.asks(event.name) and not _is_seen_to(event):
            yield _one(facts, event, Doing.HEARD if is_used(event) or _minds_errors(event) else Doing.ONCE)


def _is_seen_to(event: Event) -> bool:
    """Whether a command does nothing but answer, each rank for itself, or is one of which nobody hears (OUT03)."""
    return outside.is_command(event.name) and (tells_only(event) or not is_used(event))


def is_used(event: Event) -> bool:
    """Whether a call's result is looked at."""
    return not isinstance(event.module.parents.get(event.node), cst.Expr)


def _one(facts: Facts, event: Event, doing: Doing) -> Asking:
    """What becomes of a call that rank 0 alone makes, from where it stands."""
    assert isinstance(event.node, cst.Call)
    if any(is_of_a_data_set(facts, here) for here in event.here.up()):
        return Asking(event, event.module, event.node, Doing.LEFT)
    if facts.in_a_model(event):
        return _blocked(event, "the forward pass of a model asks somebody outside, each rank about its own samples")
    if doing is Doing.HEARD and not reached_alike(facts, event):
        return _blocked(event, "somebody outside is asked here by each rank, and not all ranks come here alike")
    if doing is Doing.HEARD and isinstance(event.module.parents.get(event.node), cst.Await):
        return _blocked(event, "every rank asks somebody outside here, and no rank can wait for another in between")
    return Asking(event, event.module, event.node, doing, _HEAR)


def _blocked(event: Event, why: str) -> Asking:
    return Asking(event, event.module, event.node, Doing.BLOCKED, why)


def is_of_a_data_set(facts: Facts, here: Here) -> bool:
    """A method that loaders call, perhaps in processes of their own: of what one is given, or of a library's kind."""
    node, function = here.frame.node, here.frame.function
    owner = function.owner if function is not None else None
    if owner is None or not isinstance(node, cst.FunctionDef) or node.name.value not in _OF_DATA_SETS:
        return False
    given = (loader.arguments.get("dataset", 0) for loader in facts.loaders)
    loaded = (obj for value in given if value is not None for obj in given_to(Arguments([value])))
    classes = (obj.of for obj in loaded if isinstance(obj, Instance) and obj.of is not None)
    return any(map(is_data_set, owner.libraries)) or any(owner in one.order for one in classes)


def _minds_errors(event: Event) -> bool:
    """Whether what a handler does about an error is more than to say so: ranks must hear of the error, too."""
    return any(
        isinstance(here.node, cst.Try) and here.arm == "body" and not all(map(_passes, here.node.handlers))
        for here in event.here.up()
    )


def _passes(handler: cst.ExceptHandler) -> bool:
    return all(isinstance(one, (cst.Pass, cst.Expr)) for one in tree.small_statements(handler.body))


# ---- connections


def _connections(facts: Facts) -> Iterator[Asking]:
    ends: set[Obj] = set()
    for event in facts.of_kind(Kind.CALL):
        if outside.connects(event.name):
            ends.update(event.value.objs)
            yield _made(facts, event)
    if not ends:
        return
    calls: dict[cst.CSTNode, Event] = {}
    for event in facts.of_kind(Kind.METHOD):
        if any(root(obj) in ends for obj in event.receiver.objs):
            calls[event.node] = event
            if event.name in outside.MAKES_ANOTHER:
                ends.update(event.value.objs)
            else:
                yield _asked(facts, event)
    yield from _other_uses(facts, ends, calls)


def _made(facts: Facts, event: Event) -> Asking:
    if _minds_errors(event):
        return _blocked(event, "a connection is made by each rank, and an error in it is handled here")
    one = _one(facts, event, Doing.MADE if is_used(event) else Doing.ONCE)
    return one if one.doing is not Doing.LEFT else _blocked(event, "each rank's workers make a connection of their own")


def _asked(facts: Facts, event: Event) -> Asking:
    """A method of a connection: of what takes its place, it does nothing."""
    if not is_used(event) and not _minds_errors(event):
        return Asking(None, event.module, event.node, Doing.ONCE)
    if not outside.answers_with_data(event.name):
        return _blocked(event, f"of what rank 0 gets by `{event.name}` here, it is not known whether it can be sent on")
    return _one(facts, event, Doing.HEARD)


def _other_uses(facts: Facts, ends: set[Obj], calls: dict[cst.CSTNode, Event]) -> Iterator[Asking]:
    """Where a connection is neither called, nor kept, nor handed on to a function of the script's own."""
    for node, value in facts.run.values.items():
        if not value.objs & ends or not isinstance(node, cst.BaseExpression):
            continue
        module = next((one for one in facts.run.frames if node in one.parents), None)
        if module is not None and not _is_plain(facts, module, node, calls):
            why = "a connection that rank 0 alone has is used here in a way that is no plain call of it"
            yield Asking(None, module, node, Doing.BLOCKED, why)


def _is_plain(facts: Facts, module: Module, node: cst.CSTNode, calls: dict[cst.CSTNode, Event]) -> bool:
    parent = module.parents.get(node)
    if isinstance(parent, cst.Attribute):
        if parent.value is not node:  # the name behind the dot
            return True
        top: cst.CSTNode | None = parent
        while isinstance(top, cst.Attribute):
            top = module.parents.get(top)
        return isinstance(top, cst.AssignTarget) or top in calls
    if isinstance(parent, cst.Comparison):
        return all(isinstance(one.operator, (cst.Is, cst.IsNot)) for one in parent.comparisons)
    if isinstance(parent, cst.Arg):
        call = module.parents.get(parent)
        if isinstance(call, cst.ClassDef):
            return True
        return isinstance(call, cst.Call) and (call in calls or _is_followed(facts.value(call.func)))
    kept = (cst.Assign, cst.AssignTarget, cst.AnnAssign, cst.WithItem, cst.AsName, cst.Return, cst.Expr, cst.Param)
    return isinstance(parent, (*kept, cst.Annotation, cst.BooleanOperation, cst.IfExp, cst.If))


def _is_followed(callee: Value) -> bool:
    return bool(callee.objs) and all(isinstance(obj, (Function, Bound, Class)) for obj in callee.objs)


# ---- what else is not known to be alike


def of_own_samples(facts: Facts) -> Iterator[Event]:
    """Questions about a rank's own share of a batch, whose answers all would take."""
    for one in askings(facts):
        if one.doing is Doing.HEARD and one.event is not None:
            given = one.event.arguments.all()
            if any(loader in facts.training_loaders for value in given for loader in dealt_by(value.sources)):
                yield one.event


def simulated(facts: Facts) -> Event | None:
    """A call of something that is played, in the loop that trains."""
    for event in facts.of_kind(Kind.CALL, Kind.METHOD):
        names = [event.name, *(obj.name for obj in event.receiver.objs if isinstance(obj, External))]
        if any(name.startswith(outside.SIMULATORS) for name in names) and any(
            map(event.inside, facts.loops_with_steps)
        ):
            return event
    return None
