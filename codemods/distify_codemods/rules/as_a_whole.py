"""What cannot be done piece by piece is done as a whole: by rank 0 for all, or by one rank after the other.

A script that looks whether a file is there, makes it where it is not, and reads it means one process. Where a piece of
that would need a person, and all that it leaves behind is files and what it returns, nothing in it has to be known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import libcst as cst

from distify_codemods import refusals, tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.decisions.differing import OF_THE_PROCESS, reached_alike, why_different
from distify_codemods.decisions.outside import is_of_a_data_set
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import Facts
from distify_codemods.file_events import reads
from distify_codemods.interpreter.frames import CALLED
from distify_codemods.libraries import effects, lasting, listings
from distify_codemods.objects import (
    Bound,
    Class,
    External,
    Function,
    Instance,
    Local,
    Mapping,
    Method,
    Parameters,
    Parent,
    Partial,
    Passing,
    Sequence,
    Suspended,
    Wrapped,
)
from distify_codemods.ordered import Ordered
from distify_codemods.origins import CHANCE
from distify_codemods.program import Module
from distify_codemods.rules import attempts, handed_over, left_behind, unequal
from distify_codemods.rules.base import MAIN_FIRST, Context
from distify_codemods.rules.once import is_used_later
from distify_codemods.rules.own_things import OwnThings
from distify_codemods.values import Value
from distify_codemods.wholes import Whole

_LOOPS = (cst.For, cst.While)
_SCOPES = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
#: What is code, or holds on to it; numbers and texts are none of these.
_CODE = (Bound, Class, Function, Instance, Local, Method, Parameters, Parent, Partial, Passing, Ref, Suspended, Wrapped)
_DEEPEST = 3  # lists of lists
_BY_CHANCE: Ordered[Obj | str] = Ordered([CHANCE])


def run(context: Context) -> None:
    """Writes those that were found."""
    for one in context.facts.wholes:
        if not context.editable(one.module, one.node, "a file is made where there is none"):
            continue
        rt, plan = context.rt(one.module), context.plan(one.module)
        if one.waits:
            reason = "every rank has read the file before rank 0 writes it anew"
            plan.insert_before(one.module.statement(one.node), f"{rt}.barrier()", context.code, reason)
        if isinstance(one.node, cst.If):
            reason = "one rank after the other: who comes later finds the file there"
            plan.guard(one.node, MAIN_FIRST.format(rt=rt), context.code, reason)
            context.applied("rank 0 comes first, and makes the file as one process does", one.module, one.node)
        elif context.call_for_all(one.module, one.node, "one process reads, writes and asks what it does in there"):
            name = tree.code_of(one.node.func)
            context.applied(f"rank 0 alone calls `{name}`, all ranks take what it returns", one.module, one.node)


def around(context: Context, blocked: list[tuple[Module, cst.CSTNode]]) -> tuple[Whole, ...]:
    """Those that the places which need a person are in, the smallest of each."""
    found: dict[cst.CSTNode, Whole] = {}
    can_be_taken = cache(partial(_can_be_taken, context))  # of the program's own call, all that happens is looked at
    for module, node in blocked:
        inside = set(tree.walk(module.statement(node))) if node in module.parents else set()
        for event in (one for one in context.facts.run.events if one.node in inside):
            if any(one.holds(event) for one in found.values()):
                continue
            whole = _around(context, event, can_be_taken)
            if whole is not None:
                found[whole.node] = replace(whole, waits=_is_read_before(context, whole))
    return tuple(found.values())


def _is_read_before(context: Context, whole: Whole) -> bool:
    """Whether ranks read before it, or in an earlier turn of a loop, what may be written anew in it."""
    written = [event for event in context.files_written if whole.holds(event)]
    read = [event for event in context.facts.of_kind(Kind.CALL, Kind.METHOD) if reads(event)] if written else []
    return any(
        (one.before(write) or not one.turns.isdisjoint(write.turns)) and context.names.may_be_one(write, one)
        for one in read if not whole.holds(one) for write in written
    )  # fmt: skip


def _around(context: Context, event: Event, can_be_taken: Callable[[Whole], bool]) -> Whole | None:
    for here in event.here.up():
        whole = None
        if here.arm == CALLED and here.parent is not None:
            called = here.frame.context[-1] if here.frame.context else None
            if isinstance(called, cst.Call) and _is_one_of_data(context, called):
                whole = Whole(here.parent.frame.module, called, here.parent)
        elif here.arm and isinstance(here.node, cst.If) and _is_done_once(context, here.frame.module, here.node):
            whole = Whole(here.frame.module, here.node, here)
            is_right = _makes_what_it_asks_for(context, whole) and not attempts.is_within(here)
            whole = whole if is_right else None
        if whole is not None and can_be_taken(whole):
            return whole
    return None


def _can_be_taken(context: Context, whole: Whole) -> bool:
    """Whether all ranks come there, and nothing of what happens there lasts but files, and what a call returns."""
    inside = [event for event in context.facts.run.events if whole.holds(event)]
    if not inside or not _all_come(context, inside[0], whole.here):
        return False
    things = OwnThings(context.facts, whole)
    texts = (whole.node, *(text for _, text in things.texts))
    if any(_is_of_a_share(context.facts, one) for one in texts):
        return False
    if any(refusals.was_converted(event.module) for event in inside):
        return False
    return things.are_all() and all(left_behind.is_nothing(context, whole, event) for event in inside)


def _is_of_a_share(facts: Facts, text: cst.CSTNode) -> bool:
    """Whether something in it is of a rank's own samples: it would stand for those of all."""
    values = (facts.value(node) for node in tree.walk(text) if isinstance(node, cst.BaseExpression))
    return any(why_different(facts, value.sources - OF_THE_PROCESS - _BY_CHANCE) for value in values)


def _all_come(context: Context, event: Event, at: Here) -> bool:
    """Whether each rank comes, as often as the others and where they can meet."""
    facts = context.facts
    if not reached_alike(facts, event) or context.comes_on_main(event) or context.takes_turns(event):
        return False
    if any(is_of_a_data_set(facts, here) for here in at.up()) or facts.in_a_model(event):
        return False
    if unequal.in_unequal_turns(context, frozenset(here.node for here in at.loops)):
        return False
    place = (at.frame.module, at.node)
    return handed_over.outside(context, event, place, ()) == place and context.runs_beside(*place) is None


# ---- branches


def _is_done_once(context: Context, module: Module, branch: cst.If) -> bool:
    """Whether it hangs on what files there are, and who does not come there goes on as who does."""
    return (
        context.asks_the_disk(branch) and not any(map(_leaves, branch.children)) and not is_used_later(module, branch)
    )


def _leaves(node: cst.CSTNode, loop: bool = False) -> bool:
    """Whether there is a `return` of the function's in it, or what leaves a loop around it."""
    if isinstance(node, cst.Return) or (isinstance(node, (cst.Break, cst.Continue)) and not loop):
        return True
    if isinstance(node, _SCOPES):
        return False
    return any(_leaves(child, loop or isinstance(node, _LOOPS)) for child in node.children)


def _makes_what_it_asks_for(context: Context, whole: Whole) -> bool:
    """Whether who comes later finds what the branch has asked for."""
    assert isinstance(whole.node, cst.If)
    inside, test = [one for one in context.facts.run.events if whole.holds(one)], set(tree.walk(whole.node.test))
    told = [one for one in inside if one.kind is not Kind.ATTRIBUTE and listings.is_of_the_disk(one.name)]
    asked = [one for one in told if one.node in test]
    made = [one for one in inside if context.writes(one) or one.name in effects.MAKES_FOLDERS]
    return bool(asked) and all(any(context.names.agree(one, question) for one in made) for question in asked)


# ---- calls


def _is_one_of_data(context: Context, call: cst.Call) -> bool:
    """Whether a function of the script's own is called, and gives what can be sent to other processes."""
    called = context.facts.value(call.func).objs
    own = [obj.function if isinstance(obj, Bound) else obj for obj in called]
    return bool(own) and all(isinstance(one, Function) and _is_plain(context.facts, one.node) for one in own)


def _is_plain(facts: Facts, node: cst.CSTNode | None) -> bool:
    """Neither a generator nor something that is waited for, and all that it returns is data."""
    if not isinstance(node, cst.FunctionDef) or node.asynchronous is not None:
        return False
    inside = list(tree.walk(node.body))
    given = [one.value for one in inside if isinstance(one, cst.Return) and one.value is not None]
    return not any(isinstance(one, cst.Yield) for one in inside) and all(_is_written_data(facts, one) for one in given)


def _is_written_data(facts: Facts, node: cst.BaseExpression) -> bool:
    value = facts.value(node)
    if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.IfExp, cst.BooleanOperation)):
        return bool(value.objs) and _is_data(value)
    return not isinstance(node, (cst.GeneratorExp, cst.Lambda, cst.Await, cst.NamedExpr)) and _is_data(value)


def _is_data(value: Value, depth: int = 0) -> bool:
    return depth < _DEEPEST and all(_can_be_sent(obj, depth) for obj in value.objs)


def _can_be_sent(obj: Obj, depth: int) -> bool:
    if isinstance(obj, Sequence):
        return all(_is_data(one, depth + 1) for one in obj.parts())
    if isinstance(obj, Mapping):
        return _is_data(obj.any(), depth + 1)
    if isinstance(obj, External):
        return lasting.is_data(obj.name)
    return not isinstance(obj, _CODE)
