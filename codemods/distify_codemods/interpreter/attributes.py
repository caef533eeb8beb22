"""What attributes of objects are: fields, methods, parts of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj, Ref
from distify_codemods.interpreter import (
    elsewhere,
    folders,
    foreign,
    forms,
    imports,
    modules,
    optimizers,
    parts,
    settings,
    text,
)
from distify_codemods.libraries import progress, python, torch_data, torch_nn, torch_optim
from distify_codemods.libraries.forms import OF_A_KIND
from distify_codemods.objects import (
    Bound,
    Class,
    External,
    Instance,
    Local,
    Mapping,
    Method,
    Parent,
    Passing,
    Sequence,
    Setting,
    Wrapped,
)
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import Answer, Shape
from distify_codemods.reads import Table
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, SIZE, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def attribute_of(machine: Machine, obj: Obj, name: str, receiver: Value, node: cst.Attribute) -> Value:
    if name == "module" and _is_unwrapped(machine, obj):
        return Value(obj.alone)
    if name == torch_nn.COMPILED_FROM and isinstance(obj, (Instance, External)):
        return Value(obj.alone)
    if name == torch_nn.BY_NAME and (isinstance(obj, Instance) or _is_of_torch(obj)):
        any_part = modules.any_part(machine, obj, name, node)
        return Value(machine.made(Mapping, node, obj, name, rest=any_part).alone)
    if isinstance(obj, Ref):
        return imports.reference(machine, f"{obj.name}.{name}")
    if isinstance(obj, Local) and obj.target is not None:
        return _module_attribute(machine, obj, name, node)
    if isinstance(obj, Wrapped):
        if name == "module" and obj.inner is not None and "module" not in obj.inner.attributes:
            return Value(obj.inner.alone)
        part = _inside_the_wrap(machine, obj, name, node)
        return part if part is not None else method_of(machine, obj, receiver, name, node)
    if isinstance(obj, (Instance, Class, Parent)):
        return machine.attribute(obj, name, receiver, node)
    if isinstance(obj, External):
        return _external_attribute(machine, obj, name, receiver, node)
    if isinstance(obj, Setting):
        return settings.inside_of(machine, obj, name)
    if isinstance(obj, Mapping) and name in obj.items and name not in dir(dict):
        return obj.items[name]
    if isinstance(obj, Sequence) and name in obj.names:
        return obj.named(name)
    if isinstance(obj, Sequence) and name in python.WRAPPED:
        return Value(obj.alone)
    if isinstance(obj, Passing) and obj.drawn and name in progress.COUNTS:
        return Value(sources=Ordered(["time", machine.made(Answer, node)]))
    if isinstance(obj, (Mapping, Sequence, Passing)):
        return method_of(machine, obj, receiver, name, node)
    if (kept := elsewhere.of_function(obj, name)) is not None:
        return kept
    return tensor_attribute(machine, receiver.of(obj.alone), name, node)


def _is_of_torch(obj: Obj) -> bool:
    return isinstance(obj, External) and obj.name.startswith(torch_nn.OWN)


def _inside_the_wrap(machine: Machine, wrap: Wrapped, name: str, node: cst.Attribute) -> Value | None:
    """`model.loss_fn`, `model.accuracy`: what a model has of its own is asked of what is wrapped (MODEL03)."""
    if not wrap.ours or not isinstance(wrap.inner, (Instance, External)):
        return None
    found = attribute_of(machine, wrap.inner, name, Value(wrap.inner.alone), node)
    return None if any(isinstance(one, (Method, Bound)) for one in found.objs) else found


def _is_unwrapped(machine: Machine, obj: Obj) -> bool:
    """Whether it stands for its own wrap, whose `module` it is; unless it has one itself."""
    if not isinstance(obj, (Instance, External)) or obj not in machine.unwrapped or "module" in obj.attributes:
        return False
    return not isinstance(obj, Instance) or obj.of is None or obj.of.member("module") is None


def holders(machine: Machine, receiver: Value, name: str) -> list[Obj]:
    """Whose attribute may be meant: of several modules, of which one is imported, only those that have it."""
    having = [obj for obj in receiver.objs if not isinstance(obj, Local) or _has(machine, obj, name)]
    return having or list(receiver.objs)


def _has(machine: Machine, obj: Local, name: str) -> bool:
    env = machine.module_frame(obj.target).env if obj.target is not None else {}
    return name in obj.attributes or name in env or name.startswith("__") or "__getattr__" in env


def _module_attribute(machine: Machine, obj: Local, name: str, node: cst.CSTNode) -> Value:
    if name in obj.attributes:
        return obj.attributes[name]
    assert obj.target is not None
    env = machine.module_frame(obj.target).env
    if name == "__dict__":
        table = machine.made(Mapping, None, obj, "__dict__")
        table.items, table.named = Table(env), True
        return Value(table.alone)
    if name in env:
        return env[name]
    if (given := imports.made_when_asked(machine, env, name, node)) is not None:
        return given
    # An empty package of the same name as a library's: the script is not started as a part of that package.
    return imports.reference(machine, f"{obj.target.name}.{name}")


def getter_of(obj: Obj) -> Value | None:
    """The function of `property(function)`."""
    if isinstance(obj, External) and obj.name == python.PROPERTY and obj.arguments is not None:
        return obj.arguments.get("fget", 0)
    return None


def _external_attribute(machine: Machine, obj: External, name: str, receiver: Value, node: cst.Attribute) -> Value:
    if name in obj.attributes:
        return obj.attributes[name]
    inside = modules.under_name(obj, name)
    if inside is not None:
        return inside
    if name == "__dict__" and (obj.attributes or settings.are_parsed(obj)):
        return settings.fields_table(machine, obj)
    if settings.are_parsed(obj) and name != python.PARSED_IN_PAIRS:
        return settings.setting_of(machine, obj, name)
    if name == torch_optim.GROUPS and (groups := optimizers.groups_of(machine, obj, obj.arguments)) is not None:
        return groups
    if obj.name == torch_data.TEXT_BATCH:
        return text.part_of(machine, obj, name, receiver, node)
    if obj.name in torch_data.LOADERS and name == "batch_size" and _is_dealing(machine, obj):
        return Value(SIZE, Scale.COUNT, obj.alone)
    if obj.name in torch_data.LOADERS and name in ("dataset", "batch_size"):
        position = 0 if name == "dataset" else 1
        return (obj.arguments and obj.arguments.get(name, position)) or NOTHING
    if (kept := modules.kept_by_any_part(obj, name)).sources:
        return kept
    if (path := folders.of_a_path(machine, obj, name, node, receiver.of(obj.alone))) is not None:
        return path
    found = foreign.with_kept(obj, method_of(machine, obj, receiver, name, node))
    return join(found, modules.methods_of_any_part(machine, obj, name)) if obj.whole is not None else found


def _is_dealing(machine: Machine, loader: External) -> bool:
    """Whether this is inside of a loop that takes the loader's batches: its batch size is theirs there, a rank's."""
    around = {(here.node, here.frame) for here in machine.here.up() if here.arm == "body"}
    for event in machine.draws if machine.happened["draws"] else ():
        if loader in event.value.objs:
            loops = (here for here in event.here.up() if here.arm and isinstance(here.node, (cst.For, cst.While)))
            inner = next(loops, None)
            if inner is not None and (inner.node, inner.frame) in around:
                return True
    return False


def method_of(machine: Machine, obj: Obj, receiver: Value, name: str, node: cst.Attribute | None) -> Value:
    own = receiver.of(obj.alone)
    place = node.value if node is not None else None
    method = machine.made(Method, place, obj, name, receiver=own, name=name, receiver_node=place)
    method.receiver = join(method.receiver or NOTHING, own)
    return Value(method.alone, receiver.scale if receiver.sources else Scale.CONST, receiver.sources)


_TENSOR_ATTRIBUTES = {"data", "grad", "real", "values", "indices"}


def tensor_attribute(machine: Machine, receiver: Value, name: str, node: cst.Attribute) -> Value:
    if (told := parts.of_labels(receiver, name)) is not None:
        return told
    if name == "shape":
        if receiver.scale in PER_SAMPLE:
            along = 0 if receiver.scale is not Scale.TURNED else 1
            many = Scale.SUM if receiver.scale is Scale.RAGGED else Scale.COUNT
            return Value(machine.made(Shape, node, along, along=along).alone, many, forms.counting(receiver))
        return forms.of_related(receiver)
    if name == "ndim":
        return Value(sources=forms.of_its_kind(receiver))  # however many samples there are
    if name == "num_graphs" and receiver.scale is Scale.SAMPLES:  # of a batch of torch_geometric
        return Value(scale=Scale.COUNT, sources=receiver.sources)
    if name == "grad" and receiver.scale in PER_SAMPLE:
        return Value(scale=Scale.SLOPES, sources=receiver.sources)
    if name in _TENSOR_ATTRIBUTES:
        one_row = receiver.one_row and name == "data"
        return Value(EMPTY, receiver.scale, receiver.sources, receiver.mask, dims=receiver.dims, one_row=one_row)
    if name in ("T", "mT"):
        turned = Scale.TURNED if receiver.scale is Scale.SAMPLES and name == "T" else receiver.scale
        turned = Scale.SAMPLES if receiver.scale is Scale.TURNED else turned
        if name == "mT" and receiver.scale in PER_SAMPLE and receiver.dims < 3:
            turned = Scale.UNKNOWN  # of two dimensions it is as `T`
        return Value(scale=turned, sources=receiver.sources, dims=max(receiver.dims, 2))
    own = machine.made(Method, node.value, name, receiver=receiver, name=name, receiver_node=node.value)
    own.receiver = join(own.receiver or NOTHING, receiver)
    sources = forms.of_its_kind(receiver) if name in OF_A_KIND else receiver.sources
    # An attribute of a batch is a part of it; one of anything else says nothing by itself.
    value = Value(own.alone, receiver.scale if receiver.sources else Scale.CONST, sources)
    return elsewhere.joined(machine, name, value)
