"""What is set under names or keys that are not known: each literal that was there may be another one from there on.

`for key, value in vars(args).items(): setattr(config, key, value)`, `globals()[key] = value`, `exec(text)`,
`cfg.merge_from_file(path)`. A branch that such a literal would decide is then not decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from distify_codemods import libraries
from distify_codemods.allocation import Obj
from distify_codemods.inside import core
from distify_codemods.libraries import settings
from distify_codemods.objects import Class, External, Instance, Mapping
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def or_another(value: Value) -> Value:
    return replace(value, open=True) if value.are_literals and not value.open else value


def put(machine: Machine, table: dict[Any, Value], value: Value, holder: Obj | None = None) -> None:
    """`value` may be under any name of these, in place of what is there with all that it holds."""
    _put(machine, table, value, holder, {holder})


def _put(machine: Machine, table: dict[Any, Value], value: Value, holder: Obj | None, seen: set[Obj | None]) -> None:
    for key, held in list(table.items()):
        if held.are_literals and not str(key).startswith("__"):
            machine.keep(table, key, join(or_another(held), value), holder)
        for one in map(core, held.objs):
            if one not in seen and (isinstance(one, Mapping) or _may_set_any(one)):
                seen.add(one)
                _put(machine, one.items if isinstance(one, Mapping) else one.attributes, NOTHING, one, seen)


def inherited(machine: Machine, obj: Obj, order: Iterable[Class], value: Value) -> Value:
    """What a class says, of an object or of a class that anything may have been set in."""
    told = machine.anything and (obj in machine.anything or any(one in machine.anything for one in order))
    return or_another(value) if told else value


def method(machine: Machine, obj: Obj | None, name: str) -> None:
    """Of what holds settings, or of something that nobody knows, a method may set any: `cfg.merge_from_file(path)`."""
    if name not in settings.READING and obj is not None and _may_set_any(holder := core(obj)):
        put(machine, holder.attributes, NOTHING, holder)


def _may_set_any(obj: Obj) -> bool:
    bases = list(obj.of.libraries) if isinstance(obj, Instance) and obj.of is not None else []
    bases += [obj.name] if isinstance(obj, External) else []
    return any(name.startswith(settings.LIBRARIES) or not libraries.knows(name.partition(".")[0]) for name in bases)
