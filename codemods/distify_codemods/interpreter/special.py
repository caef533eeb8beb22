"""Operators and conversions of the script's own classes: `log << loss`, `total += loss`, `meter < best`, `float(m)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.objects import Arguments, Bound, Instance
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: What methods of theirs are called, without underscores.
_BINARY = {
    "Add": "add", "Subtract": "sub", "Multiply": "mul", "MatrixMultiply": "matmul", "Divide": "truediv",
    "FloorDivide": "floordiv", "Modulo": "mod", "Power": "pow", "LeftShift": "lshift", "RightShift": "rshift",
    "BitAnd": "and", "BitOr": "or", "BitXor": "xor",
}  # fmt: skip
#: Of comparisons, and what the other side has for them.
_COMPARED = {
    "LessThan": ("lt", "gt"), "LessThanEqual": ("le", "ge"), "GreaterThan": ("gt", "lt"),
    "GreaterThanEqual": ("ge", "le"), "Equal": ("eq", "eq"), "NotEqual": ("ne", "ne"),
}  # fmt: skip


#: By builtin functions, the first of these that a class has.
_CONVERTING = {
    "float": ("__float__", "__index__"), "int": ("__int__", "__index__"), "bool": ("__bool__", "__len__"),
    "str": ("__str__", "__repr__"), "repr": ("__repr__",), "format": ("__format__", "__str__", "__repr__"),
    "len": ("__len__",), "abs": ("__abs__",), "round": ("__round__",),
}  # fmt: skip


def converted(machine: Machine, name: str, value: Value, node: cst.CSTNode, *given: Value) -> Value | None:
    """What a builtin function makes of objects of the script's own classes by their methods; None: nothing."""
    found = []
    for obj in value.objs if name in _CONVERTING else ():
        own = next((one for method in _CONVERTING[name] if (one := _own(machine, obj, method)).objs), NOTHING)
        if own.objs:
            arguments = Arguments([*given] if any(_has(one, "__format__") for one in own.objs) else [])
            found.append(machine.call(own, arguments, node))
    return join(*found) if found else None


def tested(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    """What a test asks for: of objects of the script's own, what they say of themselves."""
    told = converted(machine, "bool", value, node)
    return value if told is None else told


def _has(method: Obj, name: str) -> bool:
    function = method.function.node if isinstance(method, Bound) and method.function is not None else None
    return isinstance(function, cst.FunctionDef) and function.name.value == name


def called(machine: Machine, obj: Obj, name: str, given: list[Value], node: cst.CSTNode) -> Value:
    """What a special method of the script's own returns; nothing where a class has none."""
    own = _own(machine, obj, name)
    return machine.call(own, Arguments(given), node) if own.objs else NOTHING


def operated(
    machine: Machine, operator: cst.BaseBinaryOp | cst.BaseCompOp, left: Value, right: Value, node: cst.CSTNode
) -> Value | None:
    """What the classes of either side make of `left operator right`; None: nothing of the script's own."""
    kind = type(operator).__name__
    if isinstance(operator, (cst.In, cst.NotIn)):
        forward, backward = "", "__contains__"
    else:
        one, other = _COMPARED.get(kind) or (_BINARY.get(kind, ""), f"r{_BINARY.get(kind, '')}")
        forward, backward = f"__{one}__", f"__{other}__"
    found = [
        machine.call(own, Arguments([given]), node)
        for side, name, given in ((left, forward, right), (right, backward, left))
        for obj in side.objs if (own := _own(machine, obj, name)).objs
    ]  # fmt: skip
    return join(*found) if found else None


def in_place(machine: Machine, operator: cst.BaseAugOp, obj: Obj, operand: Value, node: cst.CSTNode) -> Value:
    """`obj += operand`, by `__iadd__`, or by `__add__` where there is none."""
    name = _BINARY.get(type(operator).__name__.removesuffix("Assign"), "")
    own = _own(machine, obj, f"__i{name}__")
    return called(machine, obj, f"__i{name}__" if own.objs else f"__{name}__", [operand], node)


def _own(machine: Machine, obj: Obj, name: str) -> Value:
    method = machine.attribute(obj, name) if name and isinstance(obj, Instance) else NOTHING
    return method.of(one for one in method.objs if isinstance(one, Bound))
