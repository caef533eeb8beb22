"""What was put into attributes of things that have none here: functions, tensors, parameters, what is not known.

Functions are told apart; of all else, whatever has an attribute of that name may have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from distify_codemods.allocation import Obj
from distify_codemods.objects import Bound, Function, Local
from distify_codemods.values import Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: What an attribute of a tensor is by itself, whatever was stored there.
_OF_TENSORS = frozenset({"data", "grad", "requires_grad", "shape", "real", "names"})


def put(machine: Machine, name: str, value: Value) -> None:
    if value.sources and name not in _OF_TENSORS:
        machine.keep(_everything(machine).attributes, name, value, _everything(machine))


def of_function(obj: Obj, name: str) -> Value | None:
    """What was put into an attribute of a function, or of a method of the script's."""
    function = obj.function if isinstance(obj, Bound) else obj
    return function.attributes.get(name) if isinstance(function, Function) else None


def joined(machine: Machine, name: str, value: Value) -> Value:
    """An attribute as it is by itself, or what was put there."""
    left = _everything(machine).attributes.get(name)
    return value if left is None else join(value, left)


def _everything(machine: Machine) -> Local:
    return machine.made(Local, None, "elsewhere")
