"""Models in a wrap that another module holds, which is asked for its keys: they would be `part.module.weight`."""

from __future__ import annotations

from collections.abc import Iterator

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Unwrapped
from distify_codemods.decisions.prefixes import taken_in
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, wrapped
from distify_codemods.inside import contained, core
from distify_codemods.libraries import checkpoints, torch_nn
from distify_codemods.objects import Wrapped
from distify_codemods.values import Value


def held_by_modules(facts: Facts) -> Iterator[Unwrapped]:
    """`facts`: of a run with wraps in place."""
    holding = [
        (event, holders, inside)
        for event in facts.of_kind(Kind.STORE, Kind.METHOD, Kind.CALL)
        if (inside := [obj for value in _kept(event) for obj in contained(value)])
        for holders in (set(taken_in(event)[0]),)
    ]
    asked, before = _asked_for_keys(facts), -1
    while len(asked) != before:
        before = len(asked)
        for _, holders, inside in holding:
            asked |= set(map(core, inside)) if not asked.isdisjoint(holders) else set()
    for event, holders, inside in holding:
        for obj in inside if not asked.isdisjoint(holders) else ():
            if isinstance(obj, Wrapped) and obj.ours:
                why = "another module holds it, whose keys in a checkpoint would be others"
                yield Unwrapped(core(obj), event.module, event.node, why)


def _asked_for_keys(facts: Facts) -> set[Obj]:
    """What is asked for the names of its parameters, or saved whole."""
    asked = [
        obj for event in facts.of_kind(Kind.METHOD) if event.name in torch_nn.NAMING for obj in event.receiver.objs
    ]
    given = [value for event in facts.calls(*checkpoints.WHOLE) for value in event.arguments.positional[:1]]
    return {core(obj) for obj in (*asked, *(obj for value in given for obj in contained(value)))}


def _kept(event: Event) -> list[Value]:
    """What a module keeps as it is given: where a library is given a model, it is given that itself (MODEL03)."""
    given = taken_in(event)[1]
    if event.kind is not Kind.CALL:
        return given
    here = set(tree.walk(event.node))
    return [value for value in given if not wrapped(value) and here.isdisjoint(obj.site for obj in value.objs)]
