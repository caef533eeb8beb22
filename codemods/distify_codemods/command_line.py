"""What the options of a script's command line are declared to be."""

from __future__ import annotations

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Ref
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.interpreter.settings import option_of
from distify_codemods.libraries import python
from distify_codemods.objects import Setting
from distify_codemods.values import NOTHING


def is_integer(facts: Facts, node: cst.BaseExpression, negative: bool = True) -> bool:
    """Whether this is a whole number wherever it is no other literal: `0`, `int(x)`, `args.gpu` with `type=int`.

    `negative`: also if it is negative.
    """
    if isinstance(node, cst.Call) and tree.dotted(node.func) == "int":
        return True
    objs = facts.value(node).objs
    settings = [obj.name for obj in objs if isinstance(obj, Setting)]
    options = integers(facts) if settings else {}
    if not all(name in options for name in settings):
        return False
    numbers: list[object] = [obj.value for obj in objs if isinstance(obj, Const) and type(obj.value) is int]
    numbers += [options[name] for name in settings]
    return bool(numbers) and (negative or not any(isinstance(one, int) and one < 0 for one in numbers))


def integers(facts: Facts) -> dict[str, int | None]:
    """The options that are whole numbers however they are given, with their default: `--gpu` with `type=int`."""
    declared: dict[str, list[bool]] = {}
    defaults: dict[str, int | None] = {}
    for event in facts.of_kind(Kind.METHOD):
        name = option_of(event) if event.name == python.DECLARES else ""
        if name:
            default = event.arguments.keywords.get("default", NOTHING).constant()
            whole = isinstance(default, int) and not isinstance(default, bool)
            declared.setdefault(name, []).append(_is_integer(event, whole))
            defaults[name] = default if whole and isinstance(default, int) else None
    for site in facts.run.machine.options:
        if isinstance(site, cst.Param):  # of a function that a command line is made of
            default = tree.integer(site.default) if site.default is not None else None
            declared.setdefault(site.name.value, []).append(default is not None or _says_integer(site))
            defaults[site.name.value] = default
    return {name: defaults[name] for name, kinds in declared.items() if all(kinds)}


def _says_integer(parameter: cst.Param) -> bool:
    wanted = parameter.annotation.annotation if parameter.annotation is not None else None
    return isinstance(wanted, cst.Name) and wanted.value == "int"


def declarations(facts: Facts, name: str) -> list[Event]:
    """Where an option is declared: `add_argument("--device")`."""
    return [event for event in facts.of_kind(Kind.METHOD) if event.name == python.DECLARES and option_of(event) == name]


def _is_integer(event: Event, default: bool) -> bool:
    kind = event.arguments.keywords.get("type")
    several = event.arguments.keywords.get("nargs")
    if several is not None and several.constant() != "?":
        return False
    if kind is None:
        return default and "action" not in event.arguments.keywords
    only = kind.single()
    return isinstance(only, Ref) and only.name == python.INTEGER
