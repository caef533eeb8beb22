"""What attributes of objects are: fields, methods, parts of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.interpreter import calls, cuts, imports, targets
from distify_codemods.values import (
    NOTHING,
    PER_SAMPLE,
    Bound,
    Class,
    External,
    Function,
    Instance,
    Local,
    Mapping,
    Method,
    Obj,
    Ref,
    Scale,
    Setting,
    Shape,
    Value,
    Wrapped,
    join,
)

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: Classes that deal out batches as torch's DataLoader does.
LOADERS = frozenset({"torch.utils.data.DataLoader", "torch_geometric.loader.DataLoader"})


def attribute_of(machine: Machine, obj: Obj, name: str, receiver: Value, node: cst.Attribute) -> Value:
    if isinstance(obj, Ref):
        return imports.reference(machine, f"{obj.name}.{name}")
    if isinstance(obj, Local) and obj.target is not None:
        return _module_attribute(machine, obj, name)
    if isinstance(obj, Wrapped):
        if name == "module" and obj.inner is not None and "module" not in obj.inner.attributes:
            return Value(frozenset({obj.inner}))
        return _method(machine, obj, receiver, name, node)
    if isinstance(obj, (Instance, Class)):
        return instance_attribute(machine, obj, name, receiver, node)
    if isinstance(obj, External):
        return _external_attribute(machine, obj, name, receiver, node)
    if isinstance(obj, Setting):
        return Value(frozenset({machine.made(Setting, obj.site, obj, name, name=f"{obj.name}.{name}")}))
    return tensor_attribute(machine, Value(frozenset({obj}), receiver.scale, receiver.sources), name, node)


def _module_attribute(machine: Machine, obj: Local, name: str) -> Value:
    if name in obj.attributes:
        return obj.attributes[name]
    assert obj.target is not None
    env = machine.module_frame(obj.target).env
    if name == "__dict__":
        table = machine.made(Mapping, None, obj, "__dict__")
        assert isinstance(table, Mapping)
        table.items = dict(env.items())
        return Value(frozenset({table}))
    return env.get(name, NOTHING)


def instance_attribute(
    machine: Machine, obj: Instance | Class, name: str, receiver: Value, node: cst.Attribute | None
) -> Value:
    if name in obj.attributes:
        return obj.attributes[name]
    cls = obj.of if isinstance(obj, Instance) else obj
    for ancestor in cls.ancestors() if cls else ():
        found = ancestor.attributes.get(name)
        if found is not None:
            return join(*(_bind(machine, one, obj, node) for one in found.objs)) if found.objs else found
    if name == "__class__" or cls is None:
        return NOTHING
    return _method(machine, obj, receiver, name, node) if node is not None else NOTHING


def _bind(machine: Machine, found: Obj, receiver: Obj, node: cst.CSTNode | None) -> Value:
    if isinstance(found, Function) and isinstance(receiver, Instance):
        kinds = (
            {tree.dotted(d.decorator) for d in found.node.decorators}
            if isinstance(found.node, cst.FunctionDef)
            else set()
        )
        if "staticmethod" in kinds:
            return Value(frozenset({found}))
        bound = machine.made(Bound, found.node, receiver, receiver=receiver, function=found)
        if "property" in kinds:
            return calls.call_object(machine, bound, calls.no_arguments(), node or found.node or cst.Name("_"))
        return Value(frozenset({bound}))
    return Value(frozenset({found}))


def _external_attribute(machine: Machine, obj: External, name: str, receiver: Value, node: cst.Attribute) -> Value:
    if name in obj.attributes:
        return obj.attributes[name]
    if obj.name.endswith(("parse_args", "parse_known_args")):
        return Value(frozenset({machine.made(Setting, obj.site, name, name=name)}))
    if obj.name in LOADERS and name in ("dataset", "batch_size"):
        position = 0 if name == "dataset" else 1
        return (obj.arguments and obj.arguments.get(name, position)) or NOTHING
    return _method(machine, obj, receiver, name, node)


def _method(machine: Machine, obj: Obj, receiver: Value, name: str, node: cst.Attribute | None) -> Value:
    own = Value(frozenset({obj}), receiver.scale, receiver.sources)
    place = node.value if node is not None else None
    method = machine.made(Method, place, obj, name, receiver=own, name=name, receiver_node=place)
    assert isinstance(method, Method)
    method.receiver = join(method.receiver or NOTHING, own)
    return Value(frozenset({method}), receiver.scale if receiver.sources else Scale.CONST, receiver.sources)


_TENSOR_ATTRIBUTES = {"data", "grad", "real", "values", "indices"}


def tensor_attribute(machine: Machine, receiver: Value, name: str, node: cst.Attribute) -> Value:
    if name == "shape":
        if receiver.scale in PER_SAMPLE:
            return Value(frozenset({machine.made(Shape, node)}), Scale.COUNT, cuts.shape_sources(receiver.sources))
        return Value(sources=cuts.shape_sources(receiver.sources))
    if name in _TENSOR_ATTRIBUTES:
        return Value(scale=receiver.scale, sources=receiver.sources, mask=receiver.mask, deep=receiver.deep)
    if name in ("T", "mT"):
        turned = Scale.TURNED if receiver.scale is Scale.SAMPLES and name == "T" else receiver.scale
        turned = Scale.SAMPLES if receiver.scale is Scale.TURNED else turned
        return Value(scale=turned, sources=receiver.sources)
    own = machine.made(Method, node.value, name, receiver=receiver, name=name, receiver_node=node.value)
    assert isinstance(own, Method)
    own.receiver = join(own.receiver or NOTHING, receiver)
    # An attribute of a batch is a part of it; one of anything else says nothing by itself.
    return Value(frozenset({own}), receiver.scale if receiver.sources else Scale.CONST, receiver.sources)


def iterate_instance(machine: Machine, obj: Instance, node: cst.CSTNode) -> Value:
    """What iterating over an object of a local class yields."""
    method = instance_attribute(machine, obj, "__iter__", NOTHING, None)
    if method is NOTHING:
        return NOTHING
    result = calls.call(machine, method, calls.no_arguments(), node)
    if obj in result.objs:
        step = instance_attribute(machine, obj, "__next__", NOTHING, None)
        return calls.call(machine, step, calls.no_arguments(), node)
    return targets.element_of(machine, result, node)
