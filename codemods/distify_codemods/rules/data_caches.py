"""Data sets of libraries that are not known, made or split with a path: a cache may be kept there, and built."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from distify_codemods.allocation import Const, Obj
from distify_codemods.answers import answered_once
from distify_codemods.command_line import integers
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.file_events import is_unknown
from distify_codemods.inside import contained, core, root
from distify_codemods.libraries import datasets, devices, paths, torch_nn
from distify_codemods.libraries.quiet import is_quiet
from distify_codemods.libraries.spelling import is_a_class
from distify_codemods.objects import Arguments, External, Instance, Setting
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value


@answered_once
def built(facts: Facts) -> list[Event]:
    """Calls of libraries that are not known which make, or split, what a loader takes samples of, given a path."""
    events = [event for event in facts.of_kind(Kind.CALL, Kind.METHOD) if _is_unknown(event)]
    data = _data(facts) if events else set()
    return [event for event in events if not data.isdisjoint(event.value.objs) and _is_given_a_path(facts, event)]


def _is_unknown(event: Event) -> bool:
    if event.name.startswith("local."):
        made = [one.of for one in map(core, event.value.objs) if isinstance(one, Instance) and one.of is not None]
        return any(not _is_plain(base) for cls in made for base in cls.libraries)
    if event.kind is Kind.METHOD:
        makers = [one for one in map(root, event.receiver.objs) if isinstance(one, External)]
        return bool(makers) and all(not _is_plain(one.name) for one in makers) and is_unknown(event)
    return not event.name.startswith("?") and not is_quiet(event.name) and is_unknown(event)


def _is_plain(name: str) -> bool:
    return name.startswith((*datasets.PLAIN_BASES, torch_nn.OWN, "?")) or is_quiet(name)


def _data(facts: Facts) -> set[Obj]:
    """The data sets of all loaders, what these were split off, and what the script's own ones hold."""
    found: set[Obj] = set()
    left = [loader.arguments.get("dataset", 0) or NOTHING for loader in facts.loaders]
    while left:
        for obj in map(core, contained(left.pop())):
            if obj not in found:
                found.add(obj)
                left += _came_of(obj)
    return found


def _came_of(obj: Obj) -> Iterable[Value]:
    if isinstance(obj, External):
        yield from (Value(obj.whole.alone),) if obj.whole is not None else ()
        given = obj.arguments or Arguments()
        yield from given.positional[:1]
        yield from (value for name, value in given.keywords.items() if name in datasets.DATA_ARGUMENTS)
    elif isinstance(obj, Instance):
        yield from obj.attributes.values()


def _is_given_a_path(facts: Facts, event: Event) -> bool:
    makers = [one.arguments for one in map(core, event.receiver.objs) if isinstance(one, External) and one.arguments]
    return any(may_be_given_text(facts, given) for given in (event.arguments, *makers))


def may_be_given_text(facts: Facts, given: Arguments) -> bool:
    """Whether any argument may be a path, a name or an address."""
    if given.star is not None or given.unseen is not None:
        return True
    whole = set(integers(facts))
    return any(
        _may_be_a_path(value, whole)
        for value in (*given.positional, *given.keywords.values(), *given.expanded().values())
    )


def _may_be_a_path(value: Value, whole: set[str]) -> bool:
    """What is no text is none. `whole`: the options of the command line that are whole numbers."""
    if value.objs:
        return any(_may_be_text(obj, whole) for obj in value.objs)
    put_together = all(isinstance(one, (Const, Setting)) for one in value.sources)
    return put_together and value.scale is Scale.CONST and not value.number


def _may_be_text(obj: Obj, whole: set[str]) -> bool:
    if isinstance(obj, Const):
        return isinstance(obj.value, str) and obj.value.strip() != "" and not any(map(str.isspace, obj.value))
    if isinstance(obj, Setting):
        return obj.name not in whole
    of = root(obj)
    name = of.name if isinstance(of, External) else ""
    return paths.makes_a_path(name) or devices.is_setting(name) or name in paths.KEEPS


def is_gone_through_later(facts: Facts, event: Event) -> bool:
    """Whether a `for` goes through what a function returns, which may be a generator: it does its work in there."""
    if is_a_class(event.name):
        return False
    loops = (one for one in facts.of_kind(Kind.LOOP) if isinstance(one.node, cst.For))
    return any(not event.value.objs.isdisjoint(contained(one.value)) for one in loops)
