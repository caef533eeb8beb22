"""What a function sets that a library calls at a time of its own: a signal's handler, a timer.

Nobody knows when that is, and it is another turn on each rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import reads
from distify_codemods.libraries import standard
from distify_codemods.objects import Arguments, External
from distify_codemods.origins import SIGNAL
from distify_codemods.values import Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def call_back(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> None:
    """What functions of the script's own set that are called so; what else they do is looked at in `later`."""
    reads.uncertain()
    outer = machine.control, machine.interrupting, machine.events, machine.draws
    values, seen = machine.values.copy(), dict(machine.seen)
    machine.control, machine.interrupting = machine.control | [SIGNAL], True
    machine.events, machine.draws = [], []
    machine.call_back(arguments, node)
    machine.control, machine.interrupting, machine.events, machine.draws = outer
    machine.values.clear()
    machine.values.update(values)
    machine.seen = seen


def told(machine: Machine, receiver: Value, value: Value) -> Value:
    """`stop.set()` in a handler; what `stop.is_set()` tells anywhere."""
    flags = {obj for obj in receiver.objs if isinstance(obj, External) and obj.name in standard.FLAGS}
    if machine.interrupting:
        machine.interrupted.add_all(flags)
    return value.adding([SIGNAL]) if any(one in machine.interrupted for one in flags) else value
