"""Functions, classes and lambdas, where they are defined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.interpreter import expressions
from distify_codemods.values import Class, Function, Obj, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def of_lambda(machine: Machine, node: cst.Lambda) -> Value:
    return Value(frozenset({machine.made(Function, node, machine.frame, node=node, closure=machine.frame)}))


def define(machine: Machine, node: cst.FunctionDef | cst.ClassDef) -> None:
    for decorator in node.decorators:
        expressions.evaluate(machine, decorator.decorator)
    if isinstance(node, cst.FunctionDef):
        for parameter in (*node.params.params, *node.params.kwonly_params):
            if parameter.default is not None:
                expressions.evaluate(machine, parameter.default)
        machine.bind(node.name.value, Value(frozenset({_function(machine, node, None)})))
        return
    bases = tuple(expressions.evaluate(machine, base.value) for base in node.bases)
    cls = machine.made(Class, node, node=node, bases=bases)
    assert isinstance(cls, Class)
    for statement in node.body.body:
        if isinstance(statement, cst.FunctionDef):
            for decorator in statement.decorators:
                expressions.evaluate(machine, decorator.decorator)
            cls.attributes[statement.name.value] = Value(frozenset({_function(machine, statement, cls)}))
        elif isinstance(statement, cst.SimpleStatementLine):
            for small in statement.body:
                if isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Name):
                    cls.attributes[small.targets[0].target.value] = expressions.evaluate(machine, small.value)
    machine.bind(node.name.value, Value(frozenset({cls})))


def _function(machine: Machine, node: cst.FunctionDef, owner: Class | None) -> Obj:
    return machine.made(Function, node, machine.frame, node=node, closure=machine.frame, owner=owner)
