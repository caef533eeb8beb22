"""Which tensors lie in the same memory, as a run for evidence sees it: what is changed in place shows in all of them.

A tensor of samples carries a mark of the memory that it lies in (`Storage`), which flows on to whatever may show the
same: views, lists, what a function returns. What is computed lies in memory of its own. What was changed is known of
the memory, and read under whichever name.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import reads
from distify_codemods.allocation import AT_THE_TOP, Obj, Ref
from distify_codemods.interpreter.frames import CALLED
from distify_codemods.interpreter.parts import OPERATIONS
from distify_codemods.libraries import computing, in_place, torch_nn, torch_tensors
from distify_codemods.objects import External, Instance, Mapping, Method, Passing, Sequence
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import PIECE, Storage
from distify_codemods.reads import Table
from distify_codemods.records import dataclass
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

_OF_SAMPLES = PER_SAMPLE | {Scale.COUPLED}
#: What lies in the memory of a batch has something of each of its samples, or of some.
_SHOWING = _OF_SAMPLES | {Scale.UNKNOWN}
_HOLDING = (Sequence, Mapping, Passing, Instance)


@dataclass(eq=False)
class Storages:
    whole: dict[Storage, Value] = field(default_factory=dict)  # the tensor that the memory was taken for
    changed: Table[Storage, Ordered[Obj | str]] = field(default_factory=Table)  # how its samples are told apart now
    ever: dict[Storage, Ordered[Obj | str]] = field(default_factory=dict)  # and in any turn
    calls: set[cst.CSTNode] = field(default_factory=set)  # those in which something is changed that was there before
    in_calls: set[Storage] = field(default_factory=set)  # what is changed so


def of(value: Value) -> list[Storage]:
    return [one for one in value.sources if isinstance(one, Storage)]


def new(machine: Machine, site: cst.CSTNode, whole: Value) -> Storage:
    """The memory that is taken at `site` for a tensor; what was changed in the turn before was changed elsewhere."""
    storage = machine.mark(Storage, site)
    if machine.storages is not None:
        machine.storages.whole[storage] = whole
        if storage in machine.storages.ever:
            machine.storages.changed[storage] = EMPTY
    return storage


def followed(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    """The value of an expression, with what was changed in the memory that it lies in, or lies in no longer."""
    assert machine.storages is not None
    storages = of(value)
    if machine.storages.ever:
        for one in storages:
            value = value.adding(machine.storages.changed.get(one, EMPTY))
    if storages and (value.scale not in _SHOWING or _is_computed(machine, node)):
        value, storages = value.with_sources(value.sources - {*storages, PIECE}), []
    if storages or value.scale not in _OF_SAMPLES or not isinstance(node, (*OPERATIONS, cst.Call, cst.Subscript)):
        return value
    return value.adding([new(machine, node, value)])


def added(machine: Machine, current: Value, value: Value, node: cst.CSTNode) -> Value:
    """`row += other`: it lies where it was; a number becomes a tensor of its own."""
    others = [one for one in of(value) if one not in current.sources]
    value = value.with_sources(value.sources - set(others)) if others else value
    if of(value) or value.scale not in _OF_SAMPLES:
        return value
    return value.adding([new(machine, node, value)])


def change(machine: Machine, value: Value, marks: list[Obj | str]) -> None:
    """A tensor is changed in place, in which samples are told apart so."""
    assert machine.storages is not None
    changed, ever = machine.storages.changed, machine.storages.ever
    for one in of(value):
        machine.traces.add(AT_THE_TOP)
        if not ever:  # what calls have read was not noted before
            machine.summaries.clear()
            if machine.followed is not None:
                machine.followed.clear()
            reads.uncertain()
        changed[one] = changed.get(one, EMPTY) | marks
        known = ever.get(one, EMPTY)
        ever[one] = known | marks
        machine.stores += not known >= ever[one]


def touch(machine: Machine, value: Value) -> None:
    """A tensor is changed in place, by whichever calls this is come to."""
    assert machine.storages is not None
    frames = [machine.frame, *(here.frame for here in machine.here.up() if here.arm == CALLED)]
    for one in of(value):
        inside = set(one.module.enclosing(one.site)) if one.module is not None and one.site is not None else set()
        for frame in frames:
            call = frame.context[-1] if frame.context else None
            if frame.node not in inside and isinstance(call, cst.Call):
                machine.traces.add(AT_THE_TOP)  # from elsewhere it is followed once more
                machine.storages.calls.add(call)
                machine.storages.in_calls.add(one)


def whole(machine: Machine, value: Value) -> list[Value]:
    """The tensors that this is a part of, or all of."""
    assert machine.storages is not None
    return [machine.storages.whole.get(one, NOTHING) for one in of(value)]


def _is_computed(machine: Machine, node: cst.CSTNode) -> bool:
    """Whether it is certainly a tensor of its own."""
    if isinstance(node, cst.Call):
        callees = machine.values.get(node.func, NOTHING).objs
        return bool(callees) and all(_computes(obj, node) for obj in callees)
    return isinstance(node, OPERATIONS)


def _computes(obj: Obj, call: cst.Call) -> bool:
    if isinstance(obj, Ref):
        return torch_tensors.computes(obj.name) and not in_place.may_show(obj.name.rpartition(".")[2], call)
    if isinstance(obj, External) and obj.name.startswith(torch_nn.OWN):
        return torch_nn.computes(obj.name)
    if not isinstance(obj, Method) or in_place.may_show(obj.name, call) or obj.name in computing.PLAIN:
        return False
    held = obj.receiver.objs if obj.receiver is not None else EMPTY
    return not any(isinstance(one, _HOLDING) or _is_elsewhere(one) for one in held)


def _is_elsewhere(obj: Obj) -> bool:
    """A thing of a library of which is not known what its methods return."""
    return isinstance(obj, External) and not torch_tensors.computes(obj.name)
