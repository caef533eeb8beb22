"""What a piece of the script leaves behind in its process: things that were there before, and are others then."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import root
from distify_codemods.libraries import lasting
from distify_codemods.libraries.quiet import is_quiet
from distify_codemods.objects import External, Function, Instance, Mapping, Sequence
from distify_codemods.program import Module
from distify_codemods.rules.base import Context
from distify_codemods.wholes import Whole

_TRACELESS = frozenset({Kind.ATTRIBUTE, Kind.TEST, Kind.ASSERT, Kind.OWN, Kind.PRINT})
_CHANGE = (Instance, Sequence, Mapping)


def is_nothing(context: Context, whole: Whole, event: Event) -> bool:
    """Whether what happens in a piece leaves nothing behind, but for files and for what is made in it."""
    if event.unused or event.kind in _TRACELESS:
        return True
    if event.kind is Kind.LOOP:
        return not any(loop.event is event for loop in context.facts.loops)
    if event.kind is Kind.LEAVE:
        return event.name != "exit"
    if event.kind is Kind.FORWARD:
        return not context.facts.is_of_a_model(event)
    if event.kind is Kind.CALL:
        changes = lasting.changes_the_process(event.name) or _changes_what_it_is_given(whole, event)
        return not changes and not _makes_for_training(context, event)
    if event.kind not in (Kind.METHOD, Kind.STORE):
        return False
    reads = event.kind is Kind.METHOD and lasting.only_reads(event.name)
    known = bool(event.receiver.objs) or reads or _is_fresh(context, whole, event)
    return known and not any(_may_change(whole, event, obj) for obj in event.receiver.objs)


def _changes_what_it_is_given(whole: Whole, event: Event) -> bool:
    """Whether a function of a library may change something that was there before."""
    given = [obj for value in event.arguments.all() for obj in value.objs if isinstance(obj, _CHANGE)]
    if lasting.changes_its_argument(event.name):
        first = event.arguments.positional[:1]
        return not first or not first[0].objs or not all(whole.makes(obj) for obj in first[0].objs)
    return not is_quiet(event.name) and not all(whole.makes(obj) for obj in given)


def _makes_for_training(context: Context, event: Event) -> bool:
    facts = context.facts
    made = (*facts.models, *(one.obj for one in facts.optimizers), *(one.obj for one in facts.loaders))
    return event in facts.backwards or not event.value.objs.isdisjoint(made)


def _may_change(whole: Whole, event: Event, obj: Obj) -> bool:
    if whole.makes(obj):
        return False
    maker = root(obj)
    name = maker.name if isinstance(maker, (External, Ref)) else ""
    if event.kind is Kind.STORE:
        return not lasting.is_of_a_thread(name)
    if isinstance(obj, External):
        return not lasting.keeps_nothing(name, event.name)
    if isinstance(obj, Ref):
        return lasting.changes_the_process(f"{obj.name}.{event.name}")
    return isinstance(obj, _CHANGE) and not lasting.only_reads(event.name)


# ---- of what nothing is known


def _is_fresh(context: Context, whole: Whole, event: Event) -> bool:
    """Whether what an item is set of, and of which nothing is known, was made by a library in the piece itself."""
    node, here = event.receiver_node, _text(context, whole)
    if not isinstance(node, cst.Name):
        return False
    function = event.module.function(event.node)
    place = place_of_parameter(function, node.value)
    if place is None or function is here or not isinstance(function, cst.FunctionDef):
        own = here if event.module is whole.module and function is whole.module.function(here) else function
        return is_made_in(context.facts, event.module, own, node)
    calls = [one for one in tree.walk(here) if isinstance(one, cst.Call)]
    given = [one for call in calls for one in given_to(function, call, place)]
    return bool(given) and all(is_made_in(context.facts, whole.module, here, one) for one in given)


def _text(context: Context, whole: Whole) -> cst.CSTNode:
    """What is done in it, as it stands: of a call, the function."""
    called = context.facts.value(whole.node.func).single() if isinstance(whole.node, cst.Call) else None
    return called.node if isinstance(called, Function) and called.node is not None else whole.node


def place_of_parameter(function: cst.CSTNode, name: str) -> int | None:
    given = function.params.params if isinstance(function, cst.FunctionDef) else ()
    return next((place for place, one in enumerate(given) if one.name.value == name), None)


def given_to(function: cst.FunctionDef, call: cst.Call, place: int) -> list[cst.BaseExpression | None]:
    """`f(a, b)`, `pool.submit(f, a, b)`: what a function gets for a parameter."""
    parts = (call.func, *(one.value for one in call.args))
    handed = [n for n, one in enumerate(parts) if isinstance(one, cst.Name) and one.value == function.name.value]
    given = [one.value if one.keyword is None and not one.star else None for one in call.args]
    return [given[number + place] if number + place < len(given) else None for number in handed]


def is_made_in(facts: Facts, module: Module, here: cst.CSTNode, node: cst.BaseExpression | None) -> bool:
    """Whether a name holds what a call of a library has made there, whichever way led to where it is read."""
    if not isinstance(node, cst.Name) or node not in module.parents:
        return False
    inside, bound = set(tree.walk(here)), module.flow(node).reaching(node)
    return bool(bound) and all(one in inside and _is_a_librarys(facts, module, one) for one in bound)


def _is_a_librarys(facts: Facts, module: Module, target: cst.CSTNode) -> bool:
    """`target = numpy.zeros(n)`."""
    assigned = next((one for one in module.enclosing(target) if isinstance(one, cst.Assign)), None)
    if assigned is None or not isinstance(assigned.value, cst.Call):
        return False
    called = facts.value(assigned.value.func).objs
    return bool(called) and all(isinstance(obj, Ref) for obj in called)
