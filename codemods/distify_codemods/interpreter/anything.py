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


_DEEPEST = 4  # tables within tables


def or_another(value: Value) -> Value:
    return replace(value, open=True) if value.are_literals and not value.open else value


def put(machine: Machine, table: dict[Any, Value], value: Value, holder: Obj | None = None, depth: int = 0) -> None:
    """`value` may be under any name of these, in place of what is there with all that it holds."""
    for key, held in list(table.items()):
        if held.are_literals and not str(key).startswith("__"):
            machine.keep(table, key, join(or_another(held), value), holder)
        for one in held.objs if depth < _DEEPEST else ():
            if isinstance(one, Mapping) and one.items is not table:
                put(machine, one.items, NOTHING, one, depth + 1)


def inherited(machine: Machine, obj: Obj, order: Iterable[Class], value: Value) -> Value:
    """What a class says, of an object or of a class that anything may have been set in."""
    told = machine.anything and (obj in machine.anything or any(one in machine.anything for one in order))
    return or_another(value) if told else value


def method(machine: Machine, obj: Obj | None, name: str) -> None:
    """Of what holds settings, or of something that nobody knows, a method may set any: `cfg.merge_from_file(path)`."""
    if name not in settings.READING and obj is not None and _may_set_any(holder := core(obj)):
        _put_in_all(machine, holder, set())


def _put_in_all(machine: Machine, holder: Obj, seen: set[Obj]) -> None:
    seen.add(holder)
    table = holder.items if isinstance(holder, Mapping) else holder.attributes
    put(machine, table, NOTHING, holder)
    held = [core(one) for value in table.values() for one in value.objs]
    for one in held:
        if one not in seen and (isinstance(one, Mapping) or _may_set_any(one)):
            _put_in_all(machine, one, seen)


def _may_set_any(obj: Obj) -> bool:
    bases = list(obj.of.libraries) if isinstance(obj, Instance) and obj.of is not None else []
    bases += [obj.name] if isinstance(obj, External) else []
    return any(name.startswith(settings.LIBRARIES) or not libraries.knows(name.partition(".")[0]) for name in bases)
