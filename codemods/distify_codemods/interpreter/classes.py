"""Objects of local classes: where their attributes are looked up, how they are bound, made and set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj, Ref
from distify_codemods.events import Kind
from distify_codemods.interpreter import (
    anything,
    attributes,
    definitions,
    holding,
    modules,
    optimizers,
    overlaid,
    rebinding,
    records,
    settings,
    summaries,
)
from distify_codemods.libraries import distributed, python, torch_data, torch_nn, torch_optim
from distify_codemods.objects import (
    Arguments,
    Bound,
    Class,
    External,
    Function,
    Instance,
    Mapping,
    Method,
    Parent,
    Partial,
    Sequence,
)
from distify_codemods.ordered import Ordered
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

ANY = "*"  # the attribute that holds what is set under names that are not known
_PROPERTIES = ("property", "cached_property", "lazy_property", "abstractproperty")


def attribute(
    machine: Machine,
    obj: Instance | Class | Parent,
    name: str,
    receiver: Value = NOTHING,
    node: cst.Attribute | None = None,
) -> Value:
    """`obj.name`: of the object itself, of its class and bases, of `__getattr__`, or of a library's base."""
    if isinstance(obj, Parent):
        return _parent_attribute(machine, obj, name, node)
    if (obj, name) in machine.passing:
        return machine.passing[obj, name]
    if isinstance(obj, Instance) and name in obj.attributes:
        return obj.attributes[name]
    cls = obj.of if isinstance(obj, Instance) else obj
    if cls is None:
        return NOTHING
    found = _inherited(machine, cls, obj, name, node)
    if found is not None:
        return found
    of_module = name in torch_nn.METHODS and any(one.startswith(torch_nn.OWN) for one in cls.libraries)
    if ANY in obj.attributes and not of_module and not name.startswith("__"):  # special methods are the class's
        return obj.attributes[ANY]
    special = _special(machine, obj, cls, name)
    if special is not None:
        return special
    if isinstance(obj, Instance) and not name.startswith("__"):
        forwarded = _inherited(machine, cls, obj, "__getattr__", None)
        if (item := holding.as_attribute(machine, obj, name, forwarded)) is not None:
            return item
        if forwarded is not None and forwarded.objs:
            key = machine.literal(None, name)
            result = machine.call(forwarded, Arguments([key]), node or cst.Name(name))
            if result.objs:
                return result
    return _of_a_library(machine, obj, name, receiver, node) if node is not None else NOTHING


def may_have(obj: Instance | Class, name: str) -> bool:
    """Whether an attribute is set anywhere, on the object or on a class of it."""
    cls = obj.of if isinstance(obj, Instance) else obj
    tables = [obj.attributes, *(one.attributes for one in cls.order)] if cls is not None else [obj.attributes]
    read = isinstance(obj, Instance) and obj.read
    return read or any(not table.keys().isdisjoint({name, ANY, "__getattr__"}) for table in tables)


def _of_a_library(machine: Machine, obj: Instance | Class, name: str, receiver: Value, node: cst.Attribute) -> Value:
    """What a base has that is not of the script: a loader, a dictionary, something that is not known."""
    if isinstance(obj, Instance) and obj.base is not None:
        return attributes.attribute_of(machine, obj.base, name, receiver, node)
    table = holding.held(machine, obj)
    if isinstance(table, Mapping) and name in table.items:
        return table.items[name]
    if table is not None:
        own = Value(table.alone)
        return (
            own if name in python.WRAPPED and _is_users(obj) else attributes.method_of(machine, table, own, name, node)
        )
    return attributes.method_of(machine, obj, receiver, name, node)


def _is_users(obj: Instance | Class) -> bool:
    return isinstance(obj, Instance) and obj.of is not None and obj.of.derives_from(*python.USERS)


def _inherited(
    machine: Machine, cls: Class, obj: Obj, name: str, node: cst.CSTNode | None, after: Class | None = None
) -> Value | None:
    """The attribute of the first class, in the order of resolution, that has it; `after`: behind this one."""
    order = cls.order
    for ancestor in order[order.index(after) + 1 if after in order else 0 :]:
        found = ancestor.attributes.get(name)
        if found is not None:
            bound = [_bound(machine, one, obj, cls, node) for one in found.objs]
            as_it_is = all(one == Value(own.alone) for one, own in zip(bound, found.objs, strict=True))
            return anything.inherited(machine, obj, order, found) if as_it_is else join(*bound)
    return None


def _bound(machine: Machine, found: Obj, receiver: Obj, cls: Class, node: cst.CSTNode | None) -> Value:
    itself = Value(found.alone)
    if isinstance(found, Partial) and found.method and isinstance(receiver, Instance):
        function = join(*(_bound(machine, one, receiver, cls, node) for one in (found.function or NOTHING).objs))
        partial = machine.made(Partial, found.site, found, receiver, function=function)
        partial.arguments = found.arguments
        return Value(partial.alone)
    if isinstance(found, Ref) or not isinstance(found, (Function, Bound)):
        getter = attributes.getter_of(found)
        if getter is not None and isinstance(receiver, Instance):
            return machine.call(getter, Arguments([Value(receiver.alone)]), node or cst.Name("_"))
        return itself
    if isinstance(found, Bound) or found.node is None:
        return itself
    kinds = definitions.decorator_names(machine, found.node) if isinstance(found.node, cst.FunctionDef) else set()
    if python.STATIC in kinds:
        return itself
    if python.OF_THE_CLASS in kinds or (isinstance(found.node, cst.FunctionDef) and _takes_class(found.node)):
        receiver = cls
    elif not isinstance(receiver, Instance):
        return itself
    bound = machine.made(Bound, found.node, found, receiver, receiver=receiver, function=found)
    if any(kind.rsplit(".", 1)[-1] in _PROPERTIES for kind in kinds):
        return machine.call_object(bound, Arguments(), node or found.node)
    return Value(bound.alone)


def _takes_class(node: cst.FunctionDef) -> bool:
    return node.name.value in ("__init_subclass__", "__class_getitem__")


def _special(machine: Machine, obj: Instance | Class, cls: Class, name: str) -> Value | None:
    if name == "__dict__":
        return settings.fields_table(machine, obj)
    if name == "__class__":
        return Value(cls.alone)
    if name == "__name__" and cls.node is not None:
        return machine.literal(cls.node.name, cls.node.name.value)
    if name == torch_optim.GROUPS and any(True for _ in optimizers.optimizer_bases(cls)):
        return optimizers.groups_of(machine, obj, machine.given.get(obj)) or NOTHING
    return None


def subclasses(machine: Machine, cls: Class, node: cst.CSTNode) -> Value:
    machine.happened["classes"]  # is noted
    found = tuple(Value(one.alone) for one in machine.classes if one is not cls and cls in one.order)
    made = machine.made(Sequence, node, cls)
    made.items = found
    return Value(made.alone)


def store(machine: Machine, holder: Obj, name: str, value: Value, node: cst.CSTNode) -> None:
    """`holder.name = value`, also through a property's setter or `__setattr__`."""
    if isinstance(holder, Instance) and holder.of is not None:
        for cls in holder.of.order:
            setter = cls.setters.get(name)
            if setter is not None:
                machine.invoke(setter, Arguments([value]), node, holder)
                return
    if name in (ANY, "__dict__"):
        machine.anything.add(holder)
        anything.put(machine, holder.attributes, value, holder)
    if not rebinding.is_passing(machine, holder, name, value):
        machine.keep(holder.attributes, name, join(value, overlaid.left(machine, holder, name, value, node)), holder)


# ---- making


def instantiate(machine: Machine, cls: Class, arguments: Arguments, node: cst.CSTNode) -> Value:
    wrap = next((name for name in cls.libraries if name in distributed.AROUND), None)
    if wrap is not None and _only_hands_out(machine, cls):
        return machine.call_reference(wrap, arguments, node)  # how it hands out a batch is its own, no more
    if records.is_a_row(cls):
        return records.row(machine, cls, arguments, node)
    obj = machine.made(Instance, node, cls, of=cls)
    maker = _inherited(machine, cls, cls, "__new__", None)
    made = _newly_made(machine, maker, cls, arguments, node) if maker is not None else [obj]
    value = Value(Ordered(made or [obj]))
    if machine.inside_models and summaries.are_records(value.objs):
        machine.temporary.add_all(value.objs)
    machine.event(
        Kind.CALL, node, name=f"local.{cls.node.name.value if cls.node else ''}", arguments=arguments, value=value
    )
    for one in made or [obj]:
        initialiser = _inherited(machine, cls, one, "__init__", None)
        if initialiser is None:
            machine.given.setdefault(one, arguments)
            records.fill(machine, one, cls, arguments, node)
            derive(machine, one, arguments, node)
        else:
            machine.call(initialiser, arguments, node)
            rebinding.settle(machine, one)
    if cls.derives_from(*python.PLAIN_VALUES):
        number = join(*arguments.all())
        changes = cls.member("__new__") is not None or cls.derives_from(python.INTEGER)
        scale = Scale.UNKNOWN if changes and number.scale is not Scale.CONST else number.scale
        return replace(value, scale=scale, sources=number.sources)
    return value


#: How a class that is derived from `nn.DataParallel` hands out a batch; `__getattr__` gives what the model has.
_HANDING_OUT = frozenset(
    "scatter gather replicate parallel_apply __getattr__ __module__ __qualname__ __doc__ __slots__".split()
)


_KINDS = ("isinstance", "issubclass")


def _only_hands_out(machine: Machine, cls: Class) -> bool:
    """Whether nobody misses its objects where the model itself stands in their place."""
    own = {name for one in cls.order for name in one.attributes}
    name = cls.node.name.value if cls.node is not None else ""
    asked = (
        tree.names(node.args[1]) for module in machine.globals for node in module.nodes
        if isinstance(node, cst.Call) and len(node.args) == 2 and tree.dotted(node.func) in _KINDS
    )  # fmt: skip
    return own <= _HANDING_OUT and all(name not in names for names in asked)


def _newly_made(machine: Machine, maker: Value, cls: Class, arguments: Arguments, node: cst.CSTNode) -> list[Instance]:
    own = Value(cls.alone)
    given = Arguments([own, *arguments.positional], arguments.keywords, arguments.star, arguments.double_star)
    result = machine.call(maker, given, node)
    return [obj for obj in result.objs if isinstance(obj, Instance)]


def inherited_layer(machine: Machine, obj: Instance) -> External | None:
    """`class Scaled(nn.Linear)`, with what `super().__init__` was given: what its base's `forward` is that of.

    Of `class Net(torchvision.models.ResNet)`, whatever that one makes of a batch.
    """
    libraries = obj.of.libraries if obj.of is not None else ()
    bases, given = [name for name in libraries if torch_nn.has_a_forward(name)], machine.given.get(obj)
    unknown = [name for name in libraries if not name.startswith(torch_nn.OWN)]
    if not bases and unknown:
        return machine.made(External, obj.site, obj, "base", name=unknown[0], arguments=given)
    if len(bases) != 1 or given is None or (bases[0] == torch_nn.SEQUENTIAL and not given.all()):
        return None
    return machine.made(External, obj.site, obj, "base", name=bases[0], arguments=given)


def derive(machine: Machine, obj: Instance, arguments: Arguments, node: cst.CSTNode) -> None:
    """The constructor of a library's loader, or list of modules, for an object of a class derived from it."""
    libraries = obj.of.libraries if obj.of is not None else ()
    container = next((name for name in libraries if name in torch_nn.CONTAINERS), "")
    if container:
        modules.contain(machine, obj, container, arguments)
    loader = next((name for name in libraries if name in torch_data.LOADERS), "")
    if loader:
        made = machine.call_reference(loader, arguments, node).single()
        obj.base = made if isinstance(made, External) else None


# ---- super


def parent(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`super()` and `super(Class, self)`."""
    function = machine.frame.function
    given = arguments.positional
    owners = [obj for obj in given[0].objs if isinstance(obj, Class)] if given else []
    owner = owners[0] if owners else function.owner if function is not None else None
    receivers = given[1] if len(given) > 1 else NOTHING
    if not receivers.objs and function is not None and isinstance(function.node, cst.FunctionDef):
        params = (*function.node.params.posonly_params, *function.node.params.params)
        receivers = machine.frame.env.get(params[0].name.value, NOTHING) if params else NOTHING
    if owner is None:
        return NOTHING
    return Value(
        Ordered(
            machine.made(Parent, node, obj, owner, receiver=obj, owner=owner)
            for obj in receivers.objs
            if isinstance(obj, (Instance, Class))
        )
    )


def _parent_attribute(machine: Machine, obj: Parent, name: str, node: cst.Attribute | None) -> Value:
    """What a base has under a name; a library's base does what libraries do to the object."""
    receiver = obj.receiver
    cls = receiver.of if isinstance(receiver, Instance) else receiver
    if receiver is None or not isinstance(cls, Class):
        return NOTHING
    found = _inherited(machine, cls, receiver, name, node, after=obj.owner)
    if found is not None:
        return found
    itself, place = Value(receiver.alone), node.value if node is not None else None
    method = machine.made(Method, place, receiver, name, receiver=itself, name=name, receiver_node=None)
    return Value(method.alone)
