"""What stands in the command line, by whichever way it is read: attributes of what `parse_args` returned, or a table.

`args.batch`, `vars(args)["batch"]`, `args.__dict__`, `train(**vars(args))`: one setting, where one function reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from distify_codemods.allocation import Obj
from distify_codemods.events import Event, Kind
from distify_codemods.interpreter import ranks
from distify_codemods.libraries import python
from distify_codemods.objects import External, Mapping, Setting
from distify_codemods.values import NOTHING, Value, sources_of

if TYPE_CHECKING:
    import libcst as cst

    from distify_codemods.interpreter.machine import Machine


def are_parsed(obj: Obj) -> bool:
    return isinstance(obj, External) and obj.name.endswith(python.PARSES_ARGUMENTS)


def setting_of(machine: Machine, obj: Obj, name: str) -> Value:
    """One of them: the same one each time that an activation of a function reads it.

    Where nobody gives it, it is what its option has been declared with: `default=time.strftime("%H%M")`.
    """
    defaults = sources_of(_defaults(machine, name))
    return Value(named(machine, obj.site, name).alone, sources=ranks.of_setting(name) | defaults)


def _defaults(machine: Machine, name: str) -> Iterator[Value]:
    for event in machine.declaring:
        if _declares(event) and option_of(event) == name:
            yield event.arguments.keywords.get("default", NOTHING)
        elif event.name == python.SETS_DEFAULTS:
            yield event.arguments.keywords.get(name, NOTHING)


def inside_of(machine: Machine, whole: Setting, name: str) -> Value:
    """`args.folder.name`"""
    return Value(named(machine, whole.site, f"{whole.name}.{name}").alone)


def named(machine: Machine, site: cst.CSTNode | None, name: str) -> Setting:
    return machine.made(Setting, site, name, name=name)


def declare(machine: Machine, obj: Obj) -> None:
    """Gives what was parsed an attribute for each option that is declared by now, to be looked at as a table."""
    for event in machine.declaring if are_parsed(obj) else ():
        name = option_of(event) if _declares(event) else ""
        if name and name not in obj.attributes:
            machine.keep(obj.attributes, name, setting_of(machine, obj, name), obj)


def may_be_declared(machine: Machine, parsed: External, name: str) -> bool:
    """Whether `--name` is an option, or something of which the name is not known may be."""
    if parsed.arguments is not None and parsed.arguments.get("namespace", 1) is not None:
        return True
    names = [option_of(event) for event in machine.declaring if _declares(event)]
    more = [one.arguments for one in machine.declaring if one.name == python.SETS_DEFAULTS]
    given = any(one.double_star is not None or name in one.keywords for one in more)
    return given or not names or name in names or "" in names


def _declares(event: Event) -> bool:
    return event.kind is Kind.METHOD and event.name == python.DECLARES


def fields_table(machine: Machine, obj: Obj) -> Value:
    """`obj.__dict__`, `vars(obj)`: the attributes as a dictionary that may be changed."""
    declare(machine, obj)
    table = machine.made(Mapping, None, obj, "__dict__")
    table.items, table.whose = obj.attributes, obj  # type: ignore[assignment]
    unknown = isinstance(obj, External) and are_parsed(obj) and may_be_declared(machine, obj, "")
    return Value(table.alone, open=unknown)


def option_of(event: Event) -> str:
    """The attribute that holds an option: of several spellings the first long one names it."""
    if event.arguments.double_star is not None:
        return ""
    named = event.arguments.keywords.get("dest")
    if named is not None:
        given = [named.constant()]
    else:
        spelled = [value.constant() for value in event.arguments.positional]
        if not all(isinstance(one, str) for one in spelled):
            return ""
        given = sorted(spelled, key=lambda one: not str(one).startswith("--")) or [None]
    return given[0].lstrip("-").replace("-", "_") if isinstance(given[0], str) else ""
