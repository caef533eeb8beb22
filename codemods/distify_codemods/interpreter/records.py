"""Classes without an `__init__` of their own: dataclasses, named tuples, dictionaries with attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Ref
from distify_codemods.interpreter import holding
from distify_codemods.libraries import python
from distify_codemods.objects import Arguments, Class, External, Function, Instance, Mapping, Sequence
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_DEEPEST = 4  # records within records


def fill(machine: Machine, obj: Instance, cls: Class, arguments: Arguments, node: cst.CSTNode) -> None:
    """What the `__init__` does that the class has been given: fields by place and by name."""
    positional = list(arguments.positional)
    named = {**arguments.expanded(), **arguments.keywords}
    names, unseen = holding.fields(cls), holding.double_starred(arguments)
    for place, name in enumerate(names):
        value = positional[place] if place < len(positional) else named.get(name)
        default = _default(machine, cls, name) if value is None else None
        if value is not None or default is not None:
            whole = value or join(default or NOTHING, unseen or NOTHING)
            machine.keep(obj.attributes, name, whole, obj)
    after = cls.member("__post_init__")
    for function in after.objs if after is not None else ():
        machine.call_object(function, Arguments([Value(obj.alone)]), node)
    holding.begin(machine, obj, arguments)


def _default(machine: Machine, cls: Class, name: str) -> Value | None:
    """A field's default: a value, or what `field(default_factory=...)` makes for each object."""
    value = cls.member(name)
    only = value.single() if value is not None else None
    if isinstance(only, External) and only.name.rsplit(".", 1)[-1] in ("field", "Field", "attrib", "ib"):
        given = only.arguments or Arguments()
        factory = given.get("default_factory") or given.get("factory")
        if factory is not None:
            return machine.call(factory, Arguments(), only.site or cst.Name("_"))
        return given.get("default")
    return value


def is_a_row(cls: Class) -> bool:
    """A named tuple with nothing of its own: whatever takes it as a whole takes a tuple."""
    if not cls.derives_from(*python.TUPLES):
        return False
    names = holding.fields(cls)
    own = (value for one in cls.order for name, value in one.attributes.items() if name not in names)
    return not any(isinstance(obj, (Function, External)) for value in own for obj in value.objs)


def row(machine: Machine, cls: Class, arguments: Arguments, node: cst.CSTNode) -> Value:
    """The tuple that it is, whose items have names."""
    names, made = holding.fields(cls), machine.made(Sequence, node, cls)
    spread = holding.any_item(arguments.star) if arguments.star is not None else None
    named = {**arguments.expanded(), **arguments.keywords}
    unseen = join(spread or NOTHING, holding.double_starred(arguments) or NOTHING)
    values = []
    for place, name in enumerate(names):
        value = arguments.positional[place] if place < len(arguments.positional) else named.get(name)
        values.append(value or join(_default(machine, cls, name) or NOTHING, unseen))
    return _entered(machine, made, names, values)


def _entered(machine: Machine, made: Sequence, names: tuple[str, ...], values: list[Value]) -> Value:
    known = made.items if made.items is not None and len(made.items) == len(values) else [NOTHING] * len(values)
    before, made.names = made.items, names
    made.items = tuple(join(one, other) for one, other in zip(known, values, strict=True))
    machine.stores += before != made.items
    return Value(made.alone)


def replaced(machine: Machine, old: Sequence, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`row._replace(name=value)`"""
    given = {**arguments.expanded(), **arguments.keywords}
    values = [given.get(name) or old.named(name) for name in old.names]
    return _entered(machine, machine.made(Sequence, node, old), old.names, values)


def row_as_dictionary(machine: Machine, old: Sequence, node: cst.CSTNode) -> Value:
    """`row._asdict()`"""
    made = machine.made(Mapping, node, "fields", old)
    for name in old.names:
        machine.keep(made.items, name, old.named(name), made)
    return Value(made.alone)


def named_tuple(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`collections.namedtuple("Parts", "first second")`."""
    given = arguments.get("field_names", 1) or NOTHING
    known, only = given.constant(), given.single()
    names: tuple[str, ...] = ()
    if isinstance(known, str):
        names = tuple(known.replace(",", " ").split())
    elif isinstance(only, Sequence) and only.items is not None:
        names = tuple(str(item.constant()) for item in only.items)
    base = Ref(None, name=python.NAMED_TUPLE)
    made = machine.made(Class, node, bases=(Value(base.alone),), fields=names)
    return Value(made.alone)


def as_dictionary(machine: Machine, value: Value, node: cst.CSTNode, depth: int = 0) -> Value:
    """`dataclasses.asdict(config)`: a dictionary of an object's fields, and such ones of the objects in there."""
    objs = [obj for obj in value.objs if isinstance(obj, Instance)]
    if not objs or depth > _DEEPEST:
        return value
    made = machine.made(Mapping, node, "fields", *objs)
    for obj in objs:
        for name, field in list(obj.attributes.items()):
            machine.keep(made.items, name, as_dictionary(machine, field, node, depth + 1), made)
    return Value(made.alone)


def namespace(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    obj = machine.made(External, node, name, name=name)
    obj.arguments = arguments
    for key, value in {**arguments.expanded(), **arguments.keywords}.items():
        machine.keep(obj.attributes, key, value, obj)
    for value in arguments.positional:
        for one in value.objs:
            for inner, item in one.items.items() if isinstance(one, Mapping) else ():
                if isinstance(inner, str):
                    machine.keep(obj.attributes, inner, item, obj)
    return Value(obj.alone)
