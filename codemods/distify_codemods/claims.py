"""What a checklist may claim: that nothing is written, asked or sent only where every call is known.

What is called of a library is in a table, or of a library that computes; what is neither is named wherever something
is said of all calls. Methods of what a library made are its maker's: who is known is known with what it gives.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from distify_codemods.answers import answered_once
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.file_events import code_of, given_a_path, may_write, tells_only
from distify_codemods.inside import core, root
from distify_codemods.libraries import effects, outside
from distify_codemods.libraries.python import BY_NAME
from distify_codemods.libraries.quiet import is_quiet
from distify_codemods.objects import External, Instance, Method
from distify_codemods.unbound import is_unbound
from distify_codemods.unfollowed import unfollowed
from distify_codemods.values import Value

#: The rule that tells what rank 0 does as it stands.
AS_A_WHOLE = "PATH01"


@answered_once
def unknown_calls(facts: Facts) -> list[Event]:
    """The calls of which nothing is known, each place once; but what a constant turns off is not called."""
    called = [event for event in facts.of_kind(Kind.CALL) if event.node not in facts.run.unused]
    found = {event.node: event for event in reversed(called) if _is_unknown(facts, event)}
    return list(reversed(found.values()))


def unless(facts: Facts) -> str:
    """What to add where something is said of all calls: the first that is not known, of training's if there is one."""
    if facts.wholes:
        return f", but perhaps in what rank 0 goes through as a whole ({AS_A_WHOLE})"
    found = unknown_calls(facts)
    in_steps = (event for event in found if any(map(event.inside, facts.loops_with_steps)))
    first = next(iter((*in_steps, *found)), None)
    if first is not None:
        return f", unless by `{code_of(first)}` at {first.module.place(first.node)}, which is not known"
    for call in unfollowed(facts):
        if call.is_unknown:
            return f", unless by `{call.code}` at {call.module.place(call.node)}, which is not known"
    return ", unless in calls that were not followed (SHARE01)" if facts.run.machine.spared else ""


def unless_written(facts: Facts, is_every_ranks: Callable[[Event], bool]) -> str:
    """What to add where it is said that nothing is written. Of what rank 0 alone does, or first, others tell."""
    if facts.wholes:
        return unless(facts)
    if any(map(is_every_ranks, may_write(facts))) or any(call.writes for call in unfollowed(facts)):
        return ", unless by what OUT03 names"
    first = next(filter(is_every_ranks, given_a_path(facts)), None)
    if first is None or effects.says_that_it_reads(first.name.rsplit(".", 1)[-1]):
        asked = any(outside.is_asked_by_each(event.name) or tells_only(event) for event in facts.of_kind(Kind.CALL))
        return unless(facts) or ", unless by what NET01 names" * asked
    return f", unless `{code_of(first)}` at {first.module.place(first.node)} writes: it is given a path, and not known"


def _is_unknown(facts: Facts, event: Event) -> bool:
    if isinstance(event.module.parents.get(event.node), cst.Raise):
        return False  # an exception, made to be raised
    if event.name == "?" and isinstance(event.node, cst.Call):
        called = event.node.func
        known = _is_of_known_classes(facts.value(called)) or _is_its_makers(facts, called)
        return not (known or is_unbound(facts, event.module, called))
    if event.name == "?":
        return True
    if event.name.startswith("local."):
        return not _is_of_known_classes(event.value)
    if event.name in BY_NAME:
        return not _is_found(event)
    return not is_quiet(event.name)


def _is_its_makers(facts: Facts, called: cst.BaseExpression) -> bool:
    """`mesh.geometry.values` of a `mesh` that a call of a library gave: that call is named where it is not known."""
    parts = facts.value(called.value).objs if isinstance(called, cst.Attribute) else ()
    makers = [root(one) for one in parts if isinstance(one, Method)]
    return 0 < len(makers) == len(parts) and all(isinstance(one, External) and one.name != "?" for one in makers)


def _is_of_known_classes(value: Value) -> bool:
    """Whether these are objects of the script's own classes, of which libraries' known classes do the rest."""
    made = [core(obj) for obj in value.objs]
    bases = [name for obj in made if isinstance(obj, Instance) and obj.of for name in obj.of.libraries]
    return bool(made) and all(isinstance(obj, Instance) for obj in made) and all(map(is_quiet, bases))


def _is_found(event: Event) -> bool:
    """Whether `eval("optim.SGD")` is that, and text that is put together was followed to what it may mean."""
    given = event.arguments.positional[0] if event.arguments.positional else Value()
    found = [obj for obj in event.value.objs if not (isinstance(obj, External) and obj.name == event.name)]
    return isinstance(given.constant(), str) or (bool(found) and len(found) == len(event.value.objs))
