"""Functions that a library calls with what stands in the command line.

`fire.Fire(train)`, `@click.command()`, `@app.command()` and `app()`, `tyro.cli(Config)`. Whatever default a parameter
has in the script, somebody may type something else: each is an option, as those of `argparse` are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.interpreter import holding, pooling, ranks
from distify_codemods.libraries import commands, python
from distify_codemods.objects import (
    Arguments,
    Bound,
    Class,
    External,
    Function,
    Instance,
    Mapping,
    Method,
    Partial,
    Sequence,
    Setting,
)
from distify_codemods.ordered import EMPTY
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.frames import Frame
    from distify_codemods.interpreter.machine import Machine


# ---- libraries that are given what to call


def run(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    """What such a call returns: nothing where that is not known."""
    caller = commands.CALLERS[name]
    target = arguments.get(caller.parameter, 0) or (_of_the_file(machine) if caller.methods else NOTHING)
    return _all_of(machine, list(_choices(target)), node, caller)


def _of_the_file(machine: Machine) -> Value:
    """Any function of the file may be the command of `fire.Fire()`, or of `jsonargparse.CLI()`."""
    module = machine.frame.module
    found = machine.module_frame(module).env.values()
    own = [value for value in found if any(isinstance(obj, Function) and obj.module is module for obj in value.objs)]
    return join(*own)


def _choices(target: Value) -> Iterator[Obj]:
    for obj in target.objs:
        if isinstance(obj, Mapping):
            yield from (one for value in obj.items.values() for one in _choices(value))
        elif isinstance(obj, Sequence):
            yield from (one for value in obj.parts() for one in _choices(value))
        else:
            yield obj


def _all_of(machine: Machine, objs: list[Obj], node: cst.CSTNode, caller: commands.Caller) -> Value:
    if len(objs) == 1:
        return _one(machine, objs[0], node, caller)
    found = []
    for obj in objs:
        with pooling.perhaps(machine):
            found.append(_one(machine, obj, node, caller))
    return join(*found)


def _one(machine: Machine, obj: Obj, node: cst.CSTNode, caller: commands.Caller) -> Value:
    if isinstance(obj, Instance):
        value = Value(obj.alone)
    elif isinstance(obj, (Function, Bound, Class, Partial)):
        value = _called(machine, obj, node)
    else:
        return NOTHING
    if caller.methods and isinstance(obj, (Class, Instance)):
        for made in value.objs:
            if isinstance(made, Instance):
                methods = [one for one in _public(made) if one.node is not None]
                _all_of(machine, [_bound(machine, one, made) for one in methods], node, caller)
    return value


def _bound(machine: Machine, function: Function, receiver: Instance) -> Bound:
    return machine.made(Bound, function.node, function, receiver, receiver=receiver, function=function)


def _public(obj: Instance) -> list[Function]:
    order = reversed(obj.of.order) if obj.of is not None else ()
    attributes = {name: value for one in order for name, value in one.attributes.items()}
    return [
        one
        for name, value in attributes.items()
        if not str(name).startswith("_")
        for one in value.objs
        if isinstance(one, Function) and isinstance(one.node, cst.FunctionDef)
    ]


def _called(machine: Machine, obj: Function | Bound | Class | Partial, node: cst.CSTNode) -> Value:
    given = Arguments(keywords=_options(machine, obj))
    if isinstance(obj, Function):
        return machine.invoke(obj, given, node)
    return machine.call_object(obj, given, node)


# ---- options


def _options(machine: Machine, obj: Obj) -> dict[str, Value]:
    """A value for each parameter that a call by name can give."""
    if isinstance(obj, Class):
        made = obj.member("__init__")
        function = made.single() if made is not None else None
        if not isinstance(function, Function):
            return _fields(machine, obj)
        return _parameters(machine, function, bound=True)
    if isinstance(obj, Bound) and obj.function is not None:
        return _parameters(machine, obj.function, bound=True)
    if isinstance(obj, Partial) and obj.function is not None and obj.arguments is not None:
        inner = obj.function.single()
        known = obj.arguments.keywords
        options = _options(machine, inner) if inner is not None and not obj.arguments.positional else {}
        return {name: value for name, value in options.items() if name not in known}
    return _parameters(machine, obj, bound=False) if isinstance(obj, Function) else {}


def _parameters(machine: Machine, function: Function, bound: bool) -> dict[str, Value]:
    if function.node is None:
        return {}
    params = function.node.params
    names = [*params.params, *params.kwonly_params]
    return {
        one.name.value: _option(machine, one.name.value, one, one.annotation, function.closure)
        for one in names[bool(bound and not params.posonly_params) :]
    }


def _fields(machine: Machine, cls: Class) -> dict[str, Value]:
    """Of a dataclass."""
    found = {}
    for owner in reversed(cls.order):
        for statement in owner.node.body.body if owner.node is not None else ():
            for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
                if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name):
                    name, module = small.target.value, owner.module
                    frame = machine.module_frame(module) if module is not None else None
                    found[name] = _option(machine, name, small, small.annotation, frame)
    return {name: found[name] for name in holding.fields(cls) if name in found}


def _option(
    machine: Machine, name: str, site: cst.CSTNode, annotation: cst.Annotation | None, frame: Frame | None
) -> Value:
    """An object of the script's own class where that is what is asked for; else something typed."""
    wanted = annotation.annotation if annotation is not None else None
    if isinstance(wanted, cst.Name) and frame is not None:
        only = frame.env.get(wanted.value, NOTHING).single()
        if isinstance(only, Class) and holding.fields(only):
            return _called(machine, only, site)
    machine.options.add(site)
    default = site.default if isinstance(site, cst.Param) else site.value if isinstance(site, cst.AnnAssign) else None
    unless_given = machine.values.get(default, NOTHING).sources if default is not None else EMPTY
    return Value(machine.made(Setting, site, name, name=name).alone, sources=ranks.of_setting(name) | unless_given)


# ---- commands and apps that functions are made known to


def make_known(machine: Machine, decorator: Value, expression: cst.BaseExpression, value: Value) -> None:
    """`@click.command()`, `@app.command()`: what it makes of a function."""
    if any(getattr(obj, "name", "") in commands.COMMANDS for obj in decorator.objs):
        for obj in value.objs:
            _add(machine, obj, NOTHING)
    func = expression.func if isinstance(expression, cst.Call) else expression
    if not isinstance(func, cst.Attribute):
        return
    for obj in machine.values.get(func.value, NOTHING).objs:
        app = _app(machine, obj)
        if app is not None and func.attr.value in app.adds:
            _add(machine, obj, value)
            if isinstance(obj, Function):
                for one in value.objs:
                    _add(machine, one, NOTHING)


def _add(machine: Machine, app: Obj, value: Value) -> None:
    machine.commands.grow(app, join(machine.commands.get(app, NOTHING), value))


def _app(machine: Machine, obj: Obj) -> commands.App | None:
    if isinstance(obj, Function):
        return commands.APPS[commands.GROUP] if obj in machine.commands else None
    return commands.APPS.get(obj.name) if isinstance(obj, External) else None


def called(machine: Machine, obj: Obj, arguments: Arguments, node: cst.CSTNode) -> bool:
    """Whether the call is of a command or an app, or of a method that runs it; if so, all its functions are run."""
    target, name = (obj.receiver.single(), obj.name) if isinstance(obj, Method) and obj.receiver else (obj, "")
    app = _app(machine, target) if target is not None else None
    if app is None or target is None:
        return False
    if name in app.takes:
        _add(machine, target, join(*arguments.positional[:1]))
        return False
    if name not in app.runs or target not in machine.commands:
        return False
    if isinstance(target, Function):
        _called(machine, target, node)
    _run_all(machine, machine.commands[target], node)
    return True


def _run_all(machine: Machine, known: Value, node: cst.CSTNode) -> None:
    for obj in known.objs:
        with pooling.perhaps(machine):
            if not called(machine, obj, Arguments(), node) and isinstance(obj, (Function, Bound, Partial)):
                _called(machine, obj, node)


def runs_at_once(machine: Machine, decorator: Obj, value: Value, node: cst.CSTNode) -> None:
    """`@experiment.automain`: the function is called where it is defined."""
    maker = decorator.receiver.single() if isinstance(decorator, Method) and decorator.receiver is not None else None
    name = decorator.name if isinstance(decorator, Method) else ""
    if isinstance(maker, External) and f"{maker.name}.{name}" in python.RUN_AT_ONCE:
        for obj in value.objs:
            if isinstance(obj, Function):
                _called(machine, obj, node)
