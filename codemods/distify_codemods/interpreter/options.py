"""Options of a command line, as argparse declares and gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distify_codemods.allocation import Obj
from distify_codemods.events import Event, Kind
from distify_codemods.interpreter import ranks
from distify_codemods.libraries import python
from distify_codemods.objects import External, Setting
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def is_parsed(obj: Obj) -> bool:
    """Whether its attributes are what the command line says."""
    return isinstance(obj, External) and obj.name.endswith(python.PARSES_ARGUMENTS)


def setting(machine: Machine, parsed: External, name: str) -> Value:
    """What the command line says."""
    return Value(machine.made(Setting, parsed.site, name, name=name).alone, sources=ranks.of_setting(name))


def may_be_declared(machine: Machine, name: str) -> bool:
    """Whether `--name` is an option, or one of which the name is not known may be."""
    names = [option_name(one) for one in machine.events if one.kind is Kind.METHOD and one.name == python.DECLARES]
    return not names or name in names or "" in names


def option_name(declared: Event) -> str:
    """The attribute that holds an option: of several spellings the first long one names it."""
    named = declared.arguments.keywords.get("dest")
    if named is not None:
        given = [named.constant()]
    else:
        spelled = [value.constant() for value in declared.arguments.positional]
        given = sorted(spelled, key=lambda one: not str(one).startswith("--")) or [None]
    return given[0].lstrip("-").replace("-", "_") if isinstance(given[0], str) else ""
