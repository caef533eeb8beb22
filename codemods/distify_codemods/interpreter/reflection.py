"""What is reached by names that are values: getattr, setattr, vars, globals, eval, import_module, copies."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import reads
from distify_codemods.allocation import Obj, Ref
from distify_codemods.inside import core
from distify_codemods.interpreter import (
    anything,
    attributes,
    by_name,
    changing,
    classes,
    collated,
    containers,
    elsewhere,
    holding,
    imports,
    records,
    settings,
    special,
    storing,
)
from distify_codemods.libraries import python
from distify_codemods.objects import Arguments, Class, External, Function, Instance, Local, Mapping, Method, Sequence
from distify_codemods.ordered import InOrder, Ordered
from distify_codemods.values import NOTHING, Value, join, sources_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_DEEPEST = 6  # parts within parts that are copied


def call_by_name(
    machine: Machine, told: Arguments, made: cst.CSTNode | None, receiver: Value, node: cst.CSTNode
) -> Value:
    """What `operator.methodcaller(name, ...)` returned is given an object. `made`: that call."""
    name, *positional = told.positional or [NOTHING]
    shape = _shape(machine, made, 0) if made is not None and not isinstance(name.constant(), str) else None
    found = _named_in(machine, receiver, name.constant(), receiver.objs, shape)
    return machine.call(found, Arguments(positional, told.keywords, told.star, told.double_star), node)


def _getattr(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    holder = arguments.first
    name = arguments.positional[1].constant() if len(arguments.positional) > 1 else None
    objs = attributes.holders(machine, holder, name) if isinstance(name, str) else holder.objs
    default = arguments.positional[2:3]
    if not objs and isinstance(name, str) and name.isidentifier() and holder.sources:
        node = cst.Attribute(cst.Name("_"), cst.Name(name))  # of a batch, say
        own = attributes.tensor_attribute(machine, holder, name, node)
        return own if collated.has_always(holder, name) else join(own, *default)
    shape = _shape(machine, node) if not isinstance(name, str) else None
    found = _named_in(machine, holder, name, objs, shape)
    value = elsewhere.joined(machine, name, found) if isinstance(name, str) else found
    if value.objs or not default:
        return value
    return default[0] if _lack(objs, name) else replace(join(default[0], value), open=True)


def _named_in(
    machine: Machine, holder: Value, name: object, objs: InOrder[Obj], shape: re.Pattern[str] | None
) -> Value:
    return join(*(
        _matching(machine, obj, shape) if shape is not None and isinstance(obj, Instance)
        else _named(machine, obj, name, holder)
        for obj in objs
    ))  # fmt: skip


def _shape(machine: Machine, node: cst.CSTNode, place: int = 1) -> re.Pattern[str] | None:
    """What the name may be, as far as the call shows it: an argument at a place."""
    if not isinstance(node, cst.Call) or len(node.args) <= place:
        return None
    return by_name.shape_of(machine, node.args[place].value)


def _matching(machine: Machine, obj: Instance, shape: re.Pattern[str]) -> Value:
    """The attributes and methods of such names; special methods are meant by none that is put together."""
    order = obj.of.order if obj.of is not None else ()
    names = dict.fromkeys(name for table in (obj.attributes, *(one.attributes for one in order)) for name in table)
    meant = [name for name in names if shape.fullmatch(name) and not name.startswith("__")]
    unnamed = [value for name, value in obj.attributes.items() if not name.isidentifier()]  # put there likewise
    return join(*unnamed, *(machine.attribute(obj, name) for name in meant))


def _lack(objs: InOrder[Obj], name: object) -> bool:
    """Whether objects of the script are seen to have no attribute of a name: it is the default that is taken."""
    return bool(objs) and all(
        isinstance(obj, (Instance, Class)) and isinstance(name, str) and not classes.may_have(obj, name) for obj in objs
    )


def _named(machine: Machine, obj: Obj, name: object, holder: Value) -> Value:
    if isinstance(obj, Ref):
        return imports.reference(machine, f"{obj.name}.{name if isinstance(name, str) else '?'}")
    if isinstance(name, str) and name.isidentifier():
        return attributes.attribute_of(machine, obj, name, holder, cst.Attribute(cst.Name("_"), cst.Name(name)))
    if isinstance(obj, (Instance, Class)):
        return join(*obj.attributes.values()) if obj.attributes else NOTHING
    env = containers.namespace(machine, obj)
    inner = join(*obj.attributes.values()) if isinstance(obj, Local) else NOTHING  # modules of a package
    return join(_definitions(env), inner) if env is not None else inner


def _definitions(env: dict[str, Value]) -> Value:
    """The functions and classes among the names of a module: what a name that is chosen at run time may be."""
    found = [value for value in env.values() if any(isinstance(one, (Function, Class)) for one in value.objs)]
    return join(*found)


def _setattr(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    if len(arguments.positional) == 3:
        holder, name, value = arguments.positional
        known = name.constant()
        key = known if isinstance(known, str) else classes.ANY
        storing.set_attribute(machine, holder, key, machine.tainted(value), node)
        if not holder.objs and isinstance(node, cst.Call) and not node.args[0].star:  # `setattr(x, "data", other)`
            changing.changed(machine, node.args[0].value, holder, value)
    return NOTHING


def _set_plainly(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`object.__setattr__(self, name, value)`, past what a class has for it."""
    if len(arguments.positional) == 3:
        holder, name, value = arguments.positional
        known = name.constant()
        for obj in map(core, holder.objs):
            storing.put(machine, obj, known if isinstance(known, str) else classes.ANY, machine.tainted(value), node)
    return NOTHING


def _vars(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    given = arguments.first
    found = [
        settings.fields_table(machine, obj)
        for obj in given.objs
        if isinstance(obj, (Instance, Class))
        or (isinstance(obj, External) and (obj.attributes or settings.are_parsed(obj)))
    ]
    return join(*found) if found else Value(sources=given.sources)


def _names(machine: Machine, env: dict[str, Value], whose: str) -> Value:
    table = machine.made(Mapping, None, whose)
    table.items = env  # type: ignore[assignment]
    table.named = True
    return Value(table.alone)


def _globals(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    module = machine.frame.module
    return _names(machine, machine.module_frame(module).env, f"globals of {module.path}")


def _locals(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    reads.uncertain()
    return _names(machine, machine.frame.env, "locals")


def _eval(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`eval("optim.SGD")`, or of a name that is chosen at run time: a function or class of the module."""
    text = arguments.positional[0].constant() if arguments.positional else None
    if isinstance(text, str):
        reads.uncertain()  # its nodes are others each time
        try:
            return machine.evaluate(cst.parse_expression(text))
        except cst.ParserSyntaxError:
            return NOTHING
    return _definitions(machine.module_frame(machine.frame.module).env)


def _exec(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """`exec(open("configurator.py").read())`: a text that is not known sets what names it likes."""
    anything.put(machine, machine.module_frame(machine.frame.module).env, NOTHING)
    return None


def _type(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    given = arguments.positional[0] if len(arguments.positional) == 1 else NOTHING
    found = Ordered(obj.of for obj in given.objs if isinstance(obj, Instance) and obj.of is not None)
    return Value(found, sources=given.sources)


def _property(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    made = machine.made(External, node, "property", name=python.PROPERTY)
    made.arguments = arguments
    return Value(made.alone)


def _slice(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    made = machine.made(External, node, "slice", name=python.SLICE)
    made.arguments = arguments
    return Value(made.alone, sources=sources_of(arguments.all()))


def _copy(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """A copy of an object of a local class is another object of that class, with copies of its parts."""
    given = arguments.first
    if not any(isinstance(core(obj), Instance) for obj in given.objs):
        return None
    return _copied(machine, given, node, {})


def _copied(machine: Machine, value: Value, node: cst.CSTNode, around: dict[Obj, Obj]) -> Value:
    objs = Ordered(_copy_of(machine, core(obj), node, around) for obj in value.objs)
    return Value(objs, value.scale, value.sources, value.mask, value.open)


def _copy_of(machine: Machine, obj: Obj, node: cst.CSTNode, around: dict[Obj, Obj]) -> Obj:
    """`around`: what it is a part of, and the copies of that. What was copied here before is a copy of what it is now,
    too; and a copy that is copied here once more, in a loop, is what it was.
    """
    again = obj.site is node and obj.context == machine.frame.context
    if again or len(around) > _DEEPEST or not isinstance(obj, (Instance, External)):
        return obj
    if obj in around:
        return around[obj]
    extra = {"of": obj.of} if isinstance(obj, Instance) else {"name": obj.name, "arguments": obj.arguments}
    key = (type(obj), node, machine.frame.context, obj, "copy")
    known = machine.objects.get(key)
    if known is None:
        known = machine.objects[key] = type(obj)(node, machine.frame.context, machine.frame.module, **extra)
    around = {**around, obj: known}
    for name, value in list(obj.attributes.items()):
        machine.keep(known.attributes, name, _copied(machine, value, node, around))
    if isinstance(obj, Instance) and isinstance(known, Instance):
        _copy_base(machine, obj, known, node, around)
    return known


def _copy_base(machine: Machine, obj: Instance, copy: Instance, node: cst.CSTNode, around: dict[Obj, Obj]) -> None:
    """What a library's class, from which that of the object is derived, was given and holds."""

    def copied(value: Value) -> Value:
        return _copied(machine, value, node, around)

    if (given := machine.given.get(obj)) is not None:
        machine.given[copy] = Arguments(
            list(map(copied, given.positional)),
            {name: copied(value) for name, value in given.keywords.items()},
            given.star, given.double_star,
        )  # fmt: skip
    copy.base = obj.base
    if obj.holds is not None:
        held = holding.mapped(machine, Value(obj.holds.alone), node, "copy", copied)
        copy.holds = next((one for one in held if isinstance(one, (Sequence, Mapping))), None)


def _as_method(name: str, machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """`operator.setitem(table, key, value)`"""
    given = Arguments(arguments.positional[1:])
    if not arguments.first.objs and arguments.first.sources:
        return of_a_tensor(machine, name, arguments, node)
    found = [special.called(machine, obj, name, given.positional, node) for obj in arguments.first.objs]
    for obj in arguments.first.objs:
        if isinstance(obj, (Sequence, Mapping)):
            found.append(containers.method(machine, obj, name, given, node))
    return join(*found) if found else None


def of_a_tensor(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`torch.Tensor.zero_(x[0])` is `x[0].zero_()`."""
    method = machine.made(Method, node, name, receiver=arguments.first, name=name)
    method.receiver = arguments.first
    return machine.call_object(method, arguments.rest, node)


def _reduce(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """`functools.reduce(add, figures)`: what the function makes of the first two, and of that and another one.

    `reduce(getattr, path.split("."), model)` is any of its parts.
    """
    function, items = (arguments.get(name, place) or NOTHING for place, name in enumerate(("function", "iterable")))
    if any(isinstance(obj, Ref) for obj in function.objs):
        return None
    item = holding.any_item(items)
    folded = arguments.get("initial", 2) or item
    for _ in range(2):
        folded = join(folded, machine.call(function, Arguments([folded, item]), node))
    return folded


_BUILTINS: dict[str, Callable[[Machine, Arguments, cst.CSTNode], Value | None]] = {
    "getattr": _getattr, "setattr": _setattr, "vars": _vars, "globals": _globals, "locals": _locals, "eval": _eval,
    "exec": _exec,
    "type": _type, "property": _property, "slice": _slice,
    "super": lambda machine, arguments, node: classes.parent(machine, arguments, node),
}  # fmt: skip
FUNCTIONS: dict[str, Callable[[Machine, Arguments, cst.CSTNode], Value | None]] = {
    **{f"builtins.{name}": function for name, function in _BUILTINS.items()},
    python.SETS_PLAINLY: _set_plainly,
    **{one: partial(_as_method, name) for one, name in python.AS_METHODS.items()},
    python.REDUCES: _reduce,
    python.IMPORT_MODULE: by_name.import_module,
    python.IMPORT: by_name.dunder_import,
    python.NAMED_TUPLE: lambda machine, arguments, node: records.named_tuple(machine, arguments, node),
    **dict.fromkeys(python.COPIES, _copy),
    **dict.fromkeys(
        python.AS_DICTIONARY, lambda machine, arguments, node: records.as_dictionary(machine, arguments.first, node)
    ),
}
