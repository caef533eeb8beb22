"""Functions, classes and lambdas, where they are defined, and what decorators make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj, Ref
from distify_codemods.events import Here
from distify_codemods.interpreter import commands, frames
from distify_codemods.objects import Arguments, Bound, Class, Function, Instance, Partial
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def of_lambda(machine: Machine, node: cst.Lambda) -> Value:
    _defaults(machine, node.params)
    closure = machine.frame.scope
    return Value(machine.made(Function, node, closure, node=node, closure=closure).alone)


def _defaults(machine: Machine, params: cst.Parameters) -> None:
    """They are what they are where the function is defined."""
    for parameter in (*params.posonly_params, *params.params, *params.kwonly_params):
        if parameter.default is not None:
            machine.evaluate(parameter.default)


def define(machine: Machine, node: cst.FunctionDef | cst.ClassDef) -> None:
    decorators = [machine.evaluate(decorator.decorator) for decorator in node.decorators]
    defined = _function(machine, node) if isinstance(node, cst.FunctionDef) else _class(machine, node)
    owner = machine.frame.defines
    if owner is not None and isinstance(defined, Function) and _is_setter(node):
        owner.setters[node.name.value] = defined
        return
    value = Value(defined.alone)
    for decorator, written in zip(reversed(decorators), reversed(node.decorators), strict=True):
        value = _decorated(machine, decorator, written.decorator, value, node)
        commands.make_known(machine, decorator, written.decorator, value)
    machine.bind(node.name.value, value)
    if machine.frame.module is machine.program.entry:
        for one in (obj for decorator in decorators for obj in decorator.objs):
            commands.runs_at_once(machine, one, value, node)


def _is_setter(node: cst.FunctionDef | cst.ClassDef) -> bool:
    """`@name.setter`: the name stays the property that it is."""
    return any(
        isinstance(one.decorator, cst.Attribute) and one.decorator.attr.value in ("setter", "deleter")
        for one in node.decorators
    )


def _decorated(
    machine: Machine, decorator: Value, expression: cst.BaseExpression, value: Value, node: cst.CSTNode
) -> Value:
    """What a local decorator returns; a library's is taken to give the same function or class."""
    local = [obj for obj in decorator.objs if isinstance(obj, (Function, Class)) or _is_callable(obj)]
    if not local:
        if _registers(expression):
            machine.call_back(Arguments([value]), node)
        return value
    result = machine.call(decorator.of(local), Arguments([value]), node)
    return result if result.objs else value


def _registers(decorator: cst.BaseExpression) -> bool:
    """`@atexit.register`, `@save.register(int)`: what is called later, by whom is not seen."""
    func = decorator.func if isinstance(decorator, cst.Call) else decorator
    return isinstance(func, cst.Attribute) and func.attr.value == "register"


def _is_callable(obj: Obj) -> bool:
    return isinstance(obj, (Instance, Bound, Partial))


def _function(machine: Machine, node: cst.FunctionDef) -> Obj:
    _defaults(machine, node.params)
    closure = machine.frame.scope
    return machine.made(Function, node, closure, node=node, closure=closure, owner=machine.frame.defines)


def _class(machine: Machine, node: cst.ClassDef) -> Obj:
    """Runs the body of a class; the names that it binds are the class's attributes."""
    bases = tuple(_base(machine, base.value) for base in node.bases)
    given = {one.keyword.value: machine.evaluate(one.value) for one in node.keywords if one.keyword is not None}
    cls = machine.made(Class, node, node=node, bases=bases)
    if cls not in machine.classes:
        machine.classes.append(cls)
        machine.count("classes")
    outer = machine.frame
    inside = frames.Frame(node, outer.module, outer.context, outer, env=cls.attributes, defines=cls)
    machine.frame, here = inside, machine.here
    machine.here = Here(here, node, inside, frames.CALLED)
    machine.block(node.body.body)
    machine.frame, machine.here = outer, here
    told = next((one.attributes[_TOLD] for one in cls.order[1:] if _TOLD in one.attributes), None)
    for function in told.objs if told is not None else ():
        if isinstance(function, Function):
            machine.invoke(function, Arguments(keywords=given), node, cls)
    return cls


_TOLD = "__init_subclass__"  # of a base, which may register the class, or make an object of it


def _base(machine: Machine, node: cst.BaseExpression) -> Value:
    """`Generic[T]`, `Base[int]`: the class itself, whatever it is a class of."""
    value = machine.evaluate(node)
    if value.objs or not isinstance(node, cst.Subscript):
        return value
    generic = machine.values.get(node.value, value)
    return generic if all(isinstance(obj, (Class, Ref)) for obj in generic.objs) else value


def decorator_names(machine: Machine, node: cst.FunctionDef | cst.ClassDef) -> set[str]:
    """The libraries' decorators of a function or class, by their full names."""
    found: set[str] = set()
    for decorator in node.decorators:
        for obj in machine.values.get(decorator.decorator, Value()).objs:
            name = getattr(obj, "name", "")
            if isinstance(obj, Ref) or name:
                found.add(name)
    return found
