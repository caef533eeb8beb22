"""`isinstance(value, kinds)`: what it is known to say, and what the value is where it says so.

A tensor and a tuple of tensors come the same way where a library's model returned them. Under `isinstance(x, tuple)`
it is the tuple, of which each part has the samples that the value has; behind it, it is the tensor.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const, Obj, Ref
from distify_codemods.libraries import python, torch_nn, torch_tensors
from distify_codemods.objects import Arguments, Class, Instance, Mapping, Sequence
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import Alone
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_NUMBERS = {f"builtins.{one.__name__}": one for one in (bool, int, float, str)}


def isinstance_of(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """Of what kind a value is does not depend on the samples of a rank."""
    if len(arguments.positional) != 2:
        return NOTHING
    value, kinds = arguments.positional[0], _kinds(arguments.positional[1])
    said = {_is_one(obj, kinds) for obj in value.objs} if kinds and not value.open else {None}
    if value.scale is not Scale.CONST and not all(isinstance(obj, Sequence) and obj.per_sample for obj in value.objs):
        said.add(None)  # or a tensor
    known = said.pop() if len(said) == 1 else None
    return NOTHING if known is None else machine.literal(node, known)


def _kinds(value: Value) -> Ordered[Obj]:
    """The classes that are asked for: of a tuple, each."""
    found: list[Obj] = []
    for obj in value.objs:
        if isinstance(obj, Sequence):
            if obj.items is None:
                return EMPTY
            for item in obj.items:
                found += _kinds(item)
        else:
            found.append(obj)
    return Ordered(found)


def _names(kinds: Ordered[Obj]) -> set[str]:
    return {obj.name for obj in kinds if isinstance(obj, Ref)}


def _is_one(obj: Obj, kinds: Ordered[Obj]) -> bool | None:
    names, classes = _names(kinds), {one for one in kinds if isinstance(one, Class)}
    if len(names) + len(classes) != len(kinds):
        return None
    plain = names <= torch_tensors.CLASSES | python.CONTAINERS | set(_NUMBERS)
    if isinstance(obj, Sequence):
        if names >= python.LISTS:
            return True
        return False if plain and not classes and not names & python.CONTAINERS else None
    if isinstance(obj, Mapping):
        return True if python.DICTIONARY in names else False if plain and not names & python.CONTAINERS else None
    if isinstance(obj, Const):
        types = tuple(_NUMBERS[name] for name in names & set(_NUMBERS))
        return isinstance(obj.value, types) if plain else None
    if isinstance(obj, Instance) and obj.of is not None:
        if classes & set(obj.of.order):
            return True
        return False if plain and obj.of.libraries <= torch_nn.PLAIN_BASES else None
    return None


def is_tensor(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`torch.is_tensor(value)`"""
    value = arguments.first
    others = bool(value.objs) and all(isinstance(obj, (Sequence, Mapping, Const)) for obj in value.objs)
    return machine.literal(node, False) if others and not value.open and value.scale is Scale.CONST else NOTHING


FUNCTIONS = {python.KIND_OF: isinstance_of, torch_tensors.IS_ONE: is_tensor}


# ---- in the arms of a branch


def refine(machine: Machine, test: cst.BaseExpression, holds: bool) -> None:
    """What a name holds where `test` has come out one way."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        refine(machine, test.expression, not holds)
        return
    if holds and (name := _without_dimensions(machine, test)) and name in machine.frame.env:
        value = machine.frame.env[name]
        if value.scale is Scale.SAMPLES and not value.objs:
            machine.frame.env[name] = replace(value, objs=machine.made(Alone, test).alone)
        return
    if not isinstance(test, cst.Call) or not test.args or not isinstance(test.args[0].value, cst.Name):
        return
    name, names = test.args[0].value.value, _asked_for(machine, test)
    if name not in machine.frame.env:
        return
    value = machine.frame.env[name]
    if not names or value.scale is Scale.CONST:
        return
    if names <= torch_tensors.CLASSES:
        machine.frame.env[name] = _tensor(value) if holds else _container(machine, value, test)
    elif names <= python.CONTAINERS and (holds or names >= python.LISTS):
        machine.frame.env[name] = _container(machine, value, test) if holds else _tensor(value)


def _asked_for(machine: Machine, test: cst.Call) -> set[str]:
    """The kinds that a call asks for, if it does nothing else."""
    function = machine.values.get(test.func, NOTHING).single()
    name = function.name if isinstance(function, Ref) else ""
    if name == torch_tensors.IS_ONE:
        return {torch_tensors.TENSOR}
    asks = name == python.KIND_OF and len(test.args) == 2
    return _names(_kinds(machine.values.get(test.args[1].value, NOTHING))) if asks else set()


def _without_dimensions(machine: Machine, test: cst.BaseExpression) -> str:
    """`x` of `x.dim() == 0`, `x.ndim == 0`, `len(x.shape) == 0`"""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return ""
    only = test.comparisons[0]
    if not isinstance(only.operator, cst.Equal) or machine.values.get(only.comparator, NOTHING).constant() != 0:
        return ""
    asked = test.left
    if isinstance(asked, cst.Call):
        asked = asked.args[0].value if asked.args else asked.func
    tells = isinstance(asked, cst.Attribute) and asked.attr.value in torch_tensors.TELL_DIMENSIONS
    return asked.value.value if tells and isinstance(asked, cst.Attribute) and isinstance(asked.value, cst.Name) else ""


def _tensor(value: Value) -> Value:
    objs = Ordered(obj for obj in value.objs if not isinstance(obj, (Sequence, Mapping)))
    return replace(value, objs=objs)


def _container(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    objs = Ordered(obj for obj in value.objs if isinstance(obj, (Sequence, Mapping)))
    if objs:
        return Value(objs, sources=value.sources, open=value.open)
    parts = machine.made(Sequence, node, "parts")
    part = Value(scale=value.scale, sources=value.sources, dims=value.dims)
    parts.element = join(parts.element, part) if parts.element is not None else part
    return Value(parts.alone, sources=value.sources)
