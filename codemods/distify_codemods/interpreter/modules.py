"""torch's containers of modules: what they hold is what iterating and indexing gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.inside import core, made_of
from distify_codemods.libraries import computing, torch_nn
from distify_codemods.objects import Arguments, External, Instance, Mapping, Sequence
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

LATER = "[]"  # the attribute that holds what was added later, or under a name that is not known
GIVEN = "()"  # that of an object whose class is derived from a container: the container that its base has made


def held_by(obj: Obj, key: object = None) -> Value | None:
    """The modules in a container, or the one under a key; None where they are not known."""
    if is_a_container(obj):
        key = key if LATER not in obj.attributes else None
        known = (held_by(one, key) for one in obj.attributes[GIVEN].objs)
        found = join(*(one for one in known if one is not None), obj.attributes.get(LATER, NOTHING))
        return found if found.objs else None
    if not isinstance(obj, External) or obj.name not in torch_nn.CONTAINERS or obj.whole is not None:
        return None
    given = obj.arguments.positional if obj.arguments is not None else []
    items: list[Value] = []
    for value in given:
        for one in value.objs:
            if isinstance(one, Sequence):
                items += one.parts()
            elif isinstance(one, Mapping):
                if key in one.items:
                    return one.items[key]
                items.append(one.any())
            else:
                items.append(Value(one.alone))
    places = by_place(obj)
    if isinstance(key, int) and -len(places) <= key < len(places):
        return places[key]
    found = join(*items, obj.attributes.get(LATER, NOTHING))
    return found if found.objs else None


def is_a_container(obj: Obj) -> bool:
    """Whether its class is derived from one."""
    return isinstance(obj, Instance) and GIVEN in obj.attributes


def contain(machine: Machine, obj: Instance, container: str, arguments: Arguments) -> None:
    """`super().__init__(*layers)`, of a class that is derived from a container."""
    made = machine.made(External, obj.site, obj, GIVEN, name=container)
    made.arguments = arguments if made.arguments is None else made.arguments.joined(arguments)
    machine.keep(obj.attributes, GIVEN, Value(made.alone))


def by_place(obj: Obj) -> list[Value]:
    """The modules in a list of them, where it is known which stands where."""
    if not isinstance(obj, External) or obj.name not in torch_nn.LISTS or LATER in obj.attributes:
        return []
    given = obj.arguments.positional if obj.arguments is not None else []
    if not _is_whole(given) or obj.whole is not None:
        return []
    items: list[Value] = []
    for value in given:
        only = value.single()
        items += (only.items or ()) if isinstance(only, Sequence) else [value]
    return items


def under_name(obj: External, name: str) -> Value | None:
    """`self.parts.head`: what a `ModuleDict` was given under a name, which is an attribute of it as well."""
    if obj.name != torch_nn.MODULE_DICT or obj.whole is not None or obj.arguments is None:
        return None
    given = obj.arguments.get("modules", 0)
    tables = [one for one in given.objs if isinstance(one, Mapping)] if given is not None else []
    known = bool(tables) and all(name in one.items for one in tables)
    return join(*(one.items[name] for one in tables)) if known else None


def any_part(machine: Machine, obj: Obj, name: str, node: cst.CSTNode) -> Value:
    """One of those that `model.modules()` gives, `name`, which of them is not known."""
    model = core(obj)
    return Value(machine.made(External, node, model, name=f"{type_name(model)}.{name}[]", whole=model).alone)


def type_name(obj: Obj) -> str:
    if isinstance(obj, External):
        return obj.name
    return obj.of.node.name.value if isinstance(obj, Instance) and obj.of and obj.of.node else ""


def parts_with(obj: Obj, name: str) -> list[Instance]:
    """Of one of `model.modules()`, which of them is not known, or of what something unknown has made of a model: those
    of the script's that have something of this name."""
    if not isinstance(obj, External) or (obj.whole is None and obj.name.startswith(computing.LIBRARIES)):
        return []
    parts = [
        one for value in made_of([Value((obj.whole or obj).alone)]) for one in value.objs if isinstance(one, Instance)
    ]
    return [one for one in dict.fromkeys(parts) if name in one.attributes or _defines(one, name)]


def _defines(obj: Instance, name: str) -> bool:
    return obj.of is not None and obj.of.member(name) is not None


def kept_by_any_part(obj: External, name: str) -> Value:
    """`[one.entropy for one in model.modules()]`: what forward passes have left in whichever part that has it."""
    return join(*(one.attributes[name] for one in parts_with(obj, name) if name in one.attributes))


def methods_of_any_part(machine: Machine, obj: External, name: str) -> Value:
    """`[one.switch_on() for one in model.modules()]`: what the script's classes define."""
    return join(*(machine.attribute(one, name) for one in parts_with(obj, name) if _defines(one, name)))


def _is_whole(given: list[Value]) -> bool:
    """Whether each item is known by its place."""
    listed = [obj for value in given for obj in value.objs if isinstance(obj, Sequence)]
    return all(len(value.objs) == 1 for value in given) and all(obj.items is not None for obj in listed)


def add(machine: Machine, obj: Obj | None, name: str, arguments: Arguments) -> None:
    """`layers.append(layer)`"""
    if obj is None or name not in ("append", "extend", "insert", "add_module") or not _is_a_list(obj):
        return
    for value in arguments.positional[-1:]:
        for one in value.objs:
            machine.keep(obj.attributes, LATER, one.any() if isinstance(one, Sequence) else Value(one.alone))


def put(machine: Machine, obj: Obj, value: Value) -> None:
    """`layers[1] = layer`"""
    if _is_a_list(obj):
        machine.keep(obj.attributes, LATER, value)


def _is_a_list(obj: Obj) -> bool:
    if isinstance(obj, Instance):
        return obj.of is not None and obj.of.derives_from(*torch_nn.LISTS)
    return isinstance(obj, External) and obj.name in torch_nn.LISTS


def is_known(machine: Machine, obj: Obj, around: tuple[Obj, ...] = ()) -> bool:
    """Whether something of a library is a module that is known, or a copy of one: `copy.deepcopy(model)`."""
    if not isinstance(obj, External) or obj in around:
        return False
    copied = obj.arguments.first.objs if obj.name in computing.PASSING and obj.arguments is not None else ()
    known = obj in machine.modules or obj.name.startswith(computing.MODULES)
    return known or any(is_known(machine, core(one), (*around, obj)) for one in copied)
