"""Methods of what libraries made: of modules, tensors, optimizers, parsers."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import libraries
from distify_codemods.allocation import Const, Obj
from distify_codemods.events import Kind
from distify_codemods.inside import contained, core
from distify_codemods.interpreter import (
    anything,
    autograd,
    changing,
    classes,
    containers,
    cuts,
    evidence,
    files,
    folders,
    foreign,
    forms,
    graph,
    holding,
    interrupts,
    iteration,
    iterators,
    library,
    modules,
    records,
    scales,
    settings,
    single_rows,
    state,
    storing,
    tensors,
)
from distify_codemods.libraries import (
    computing,
    drawing,
    effects,
    in_place,
    listings,
    python,
    torch_data,
    torch_nn,
    torch_optim,
    using,
)
from distify_codemods.objects import (
    Arguments,
    Bound,
    Class,
    External,
    Function,
    Instance,
    Mapping,
    Method,
    Parameters,
    Passing,
    Sequence,
    Wrapped,
)
from distify_codemods.ordered import EMPTY
from distify_codemods.origins import CHANCE
from distify_codemods.scale import FIGURES, LOST, Scale
from distify_codemods.values import NOTHING, Value, join, text_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: Methods of modules (and tensors) that return the object itself.
RETURN_THEMSELVES = (
    "to cuda cpu float half double bfloat16 train eval apply requires_grad_ share_memory type to_empty".split()
)
#: Numbers that an operation in place makes others of: `correct.mul_(100 / len(batch))`.
#: By so many methods in a row a thing may have come about for its name to tell all of them.
_LONGEST_WAY = 2
_OF_A_BATCH = frozenset({Scale.SUM, Scale.COUNT, Scale.INVERSE, Scale.MEAN, Scale.WEIGHTED})
#: Methods that only modules have: who is asked for them is one.
_OF_MODULES = frozenset("parameters named_parameters state_dict load_state_dict train eval modules children".split())
_PARAMETERS = ("parameters", "named_parameters")
#: Methods of tensors that put what they are given into some of its entries, or all.
_PUTTING = frozenset(
    "copy_ fill_ index_copy_ index_fill_ index_put_ masked_fill_ masked_scatter_ put_ scatter_ index_add_".split()
)
#: Methods of tensors that rules look at: device spellings, the backward pass, and what shapes a tensor by a number.
_RECORDED = frozenset(
    """backward cuda to step view reshape expand repeat new new_zeros new_ones new_full new_empty new_tensor mkdir
    open""".split()
).union(listings.METHODS_THAT_TELL, effects.WRITING_METHODS)


def call(machine: Machine, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value:
    receiver, name = method.receiver or NOTHING, method.name
    obj = receiver.single()
    if name == "__init__" and isinstance(obj, Instance):
        machine.given[obj] = arguments
        classes.derive(machine, obj, arguments, node)
        holding.begin(machine, obj, arguments)
    value = _value(machine, method, receiver, arguments, node)
    value = tensors.set_by(value, arguments) if obj is None else value
    if name == "backward":  # the gradient that is begun with is a factor of it
        receiver = scales.set_by(receiver, [arguments.get("gradient", 0) or NOTHING])
    overwrites = name in in_place.OVERWRITING and not any(isinstance(one, (Class, Instance)) for one in receiver.objs)
    if overwrites:
        value = value.with_sources(forms.emptied(receiver) | arguments.sources)
    if machine.cutting is not None and obj is not None:
        value = cuts.foreign(machine, obj, name, value, arguments, node)
    modules.add(machine, obj, name, arguments)
    if name in torch_nn.REGISTERING:
        _register(machine, receiver, arguments, node)
    if name in in_place.OF_ARRAYS:
        state.method(machine, name, node, join(*arguments.all()), torch_data.LOADERS)
    if name in in_place.REORDERING or name in in_place.SHUFFLING:
        holding.reordered(machine, name, node)
        into = receiver if name in in_place.REORDERING else arguments.first
        if isinstance(node, cst.Call) and not into.objs:
            moved = name in in_place.SHUFFLING or value.scale in LOST
            changing.changed(machine, node, into, NOTHING, moved)
    if name in in_place.OF_ARRAYS and isinstance(node, cst.Call) and not receiver.objs:
        changing.changed(machine, node, receiver, join(*arguments.all()), name == "put")
    if name.endswith("_"):
        if isinstance(node, cst.Call):
            _change(machine, name, receiver, value, arguments, node)
        state.method(machine, name, node, join(*arguments.all()), torch_data.LOADERS)
        changing.called(machine, receiver, value, join(*arguments.all()), node)
    if overwrites and isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        state.overwritten(machine, node.func.value, arguments.sources)
    if drawing.draws_by(obj.name if isinstance(obj, External) else "", name):
        if isinstance(obj, External):  # a tensor, and nothing of the library's own
            value = Value(scale=value.scale, sources=value.sources)
        value = value.adding([CHANCE])
        value = evidence.drawn(machine, value, arguments, node, certain=True) if machine.tells_draws else value
        if name.endswith("_") and isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            state.drawn_into(machine, node.func.value, node, value)
    elif machine.evidence and isinstance(obj, External) and obj.name in drawing.GENERATORS:
        drawn = drawing.is_drawing_method(name)
        value = evidence.drawn(machine, value, arguments, node, certain=True) if drawn else value
    value = evidence.played(machine, name, obj, value, node)
    value = forms.called(name, arguments, value, receiver)
    value = interrupts.told(machine, receiver, files.carried(machine, receiver, name, arguments, value, node))
    anything.method(machine, obj, name)
    interesting = obj is not None or name in _RECORDED or (name.endswith("_") and not name.endswith("__"))
    if interesting:
        machine.event(
            Kind.METHOD, node, name=name, receiver=receiver, receiver_node=method.receiver_node,
            arguments=arguments, value=value,
        )  # fmt: skip
    return value


def _register(machine: Machine, receiver: Value, arguments: Arguments, node: cst.CSTNode) -> None:
    """`self.register_buffer("mean", torch.zeros(4))` gives an attribute, as `self.mean = ...` does.

    What a buffer was made of before training, the mean of all samples, is alike on all ranks.
    """
    name = arguments.get("name", 0)
    given = next((one for key in torch_nn.REGISTERED if (one := arguments.get(key, 1)) is not None), NOTHING)
    known = name.constant() if name is not None else None
    attribute = known if isinstance(known, str) else modules.LATER
    for obj in map(core, receiver.objs):
        if not isinstance(obj, Instance):
            continue
        machine.registered.add((obj, attribute))
        else_none = attribute in obj.attributes or (obj.of is not None and obj.of.member(attribute) is not None)
        if given.objs or else_none:  # a tensor has no objects, and is no None
            classes.store(machine, obj, attribute, Value(given.objs, open=not given.objs), node)


def _change(machine: Machine, name: str, receiver: Value, value: Value, arguments: Arguments, node: cst.Call) -> None:
    """What a tensor holds that is changed in place."""
    if name in in_place.RESIZING and value.scale is not Scale.CONST:
        holding.fill(machine, node.func, value)
    moved = any(one.scale in (Scale.SLOPES, Scale.COUPLED) for one in arguments.all())  # it moves along its gradient
    place = node.func.value if isinstance(node.func, cst.Attribute) else None
    if name == "copy_" and arguments.positional:
        holding.fill(machine, node.func, arguments.positional[0].in_one_row(receiver.one_row))
    elif place is not None and (value.scale is Scale.COUPLED or (moved and name in ("add_", "sub_", "mul_"))):
        holding.relate(machine, place, receiver, value)
    if place is not None and _puts_of_all(name, arguments):
        whole = place.value if isinstance(place, cst.Subscript) else place
        holding.relate(machine, whole, receiver, join(*arguments.all()))  # what else it has is of each sample
        if isinstance(place, cst.Name):
            now = Value(scale=Scale.COUPLED, sources=receiver.sources | arguments.sources)
            state.added(machine, place, now, now, torch_data.LOADERS)
    if isinstance(node.func, cst.Attribute):
        single_rows.changed(machine, node.func.value, receiver, join(*arguments.all()))
    if receiver.scale in _OF_A_BATCH and value.scale is not receiver.scale:
        holding.fill(machine, node.func, value)


def _puts_of_all(name: str, arguments: Arguments) -> bool:
    """Whether what is made of a whole batch, or their number, is put into its entries: `x[:, 0].fill_(x.mean())`."""
    given = {one.scale for one in arguments.all()}
    return name in _PUTTING and not given.isdisjoint(FIGURES | {Scale.COUNT})


def _value(machine: Machine, method: Method, receiver: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    obj, name = receiver.single(), method.name
    if isinstance(obj, (Sequence, Mapping, Passing)):
        return containers.method(machine, obj, name, arguments, node)
    if isinstance(obj, Const) and isinstance(obj.value, str):
        plain = name == "format" and not arguments.keywords and arguments.star is None
        path = folders.filled_in(machine, node, obj.value, arguments.positional) if plain else None
        told = text_of(arguments.all(), path.alone if path is not None else EMPTY)
        return told.with_sources(told.sources | arguments.sources)
    if isinstance(obj, Method) and name in _PARAMETERS and obj.receiver is not None:
        whole = [core(one) for one in obj.receiver.objs if isinstance(one, (Instance, External, Wrapped))]
        return join(*(_parameters(machine, _held(machine, one, obj.name, node), name, node) for one in whole))
    if isinstance(obj, Method) and name in RETURN_THEMSELVES and receiver.scale is Scale.CONST:
        return receiver  # whatever it is, a module or a tensor, it is that attribute still
    if isinstance(obj, Method) and name == "get":
        return join(tensors.method(machine, receiver, name, arguments, node), _entry(machine, receiver, obj, arguments))
    if isinstance(obj, (Instance, External, Wrapped, Class)):
        return _of_an_object(machine, obj, method, receiver, arguments, node)
    return tensors.method(machine, receiver, name, arguments, node)


def _of_an_object(
    machine: Machine, obj: Obj, method: Method, receiver: Value, arguments: Arguments, node: cst.CSTNode
) -> Value:
    inner, name = core(obj), method.name
    if (table := holding.held(machine, inner)) is not None and any(
        hasattr(plain, name) for plain in _PLAIN[type(table)]
    ):
        return containers.method(machine, table, name, arguments, node)  # `super().append(loss)`
    if name in _OF_MODULES:
        machine.modules.add(inner)
    special = _METHODS.get(name)
    known = special(machine, obj, method, arguments, node) if special is not None else None
    known = known or cuts.folded(machine, name, receiver, arguments, node)
    if known is not None:
        return known
    if (own := _own_method(machine, obj, name)) is not None:
        return machine.call_object(own, arguments, node)
    if machine.inside_models and isinstance(inner, External) and computing.is_a_part(inner.name, name):
        result = library.call_external_object(machine, inner, arguments, node)
        return graph.through(machine, inner, arguments, result, node) if machine.tracing and machine.grad else result
    if isinstance(inner, External) and receiver.scale is not Scale.CONST:
        return tensors.method(machine, receiver, name, arguments, node)
    returned = machine.call_back(arguments, node)
    if name == "step" and returned.sources:  # of an optimizer: the loss that its closure computed
        return Value(scale=returned.scale, sources=returned.sources)
    if node in machine.through.get(inner, ()):  # once more around a loop: nothing else than before
        return library.made_of(inner, arguments)
    value = library.external(machine, _name_of_result(machine, inner, name), arguments, node)
    for made in value.objs:
        if isinstance(made, External):
            made.receiver = receiver if made.receiver is None else join(made.receiver, receiver)
        machine.through[made] = machine.through.get(inner, frozenset()) | {node}
    foreign.given(machine, inner, arguments)
    return foreign.with_kept(inner, value.adding(state.left_in(receiver)))


def _all_parameters(machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value:
    machine.optimized.add(core(obj))
    return _parameters(machine, core(obj), method.name, node)


def _held(machine: Machine, whole: Obj, name: str, node: cst.CSTNode) -> Obj:
    """Whose parameters an attribute of something has: a module's of its own, where it is not known what holds it.

    `wrapper.model`: the wrapper need not be a module. If it is, and is called, it is the one that is trained.
    """
    if not isinstance(whole, External) or libraries.knows(whole.name.partition(".")[0]):
        return whole
    part = machine.made(External, node, whole, name, name=f"{whole.name}.{name}", whole=whole)
    whole.attributes[name] = Value(part.alone)
    machine.optimized.add(part)
    return part


def _iterator(machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    if isinstance(obj, External):
        return iteration.begin(machine, method.receiver or NOTHING, node, method.receiver_node or cst.Name("_"))
    base = obj.base if isinstance(obj, Instance) else None
    return iterators.passing(machine, node, Value(base.alone)) if base is not None else None


def _new(machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    return Value(machine.made(Instance, node, obj, of=obj).alone) if isinstance(obj, Class) else None


def _from_pretrained(
    machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode
) -> Value | None:
    """`Net.from_pretrained(path)`, of a class of the script's: it is made with a configuration that was read."""
    base = next((one for one in obj.libraries if using.loads_classes(one)), None) if isinstance(obj, Class) else None
    if base is None or not isinstance(obj, Class):
        return None
    library.external(machine, f"{base}.{method.name}", arguments, node)
    given = Arguments(arguments.positional[1:], dict(arguments.keywords), double_star=arguments.double_star)
    if using.is_made_by_a_config(base):
        read = library.external(machine, using.CONFIG, Arguments(arguments.positional[:1]), node)
        given.positional.insert(0, given.keywords.pop("config", read))
    return classes.instantiate(machine, obj, given, node)


def _apply(machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value:
    if isinstance(obj, Class) and obj.derives_from(torch_optim.FUNCTION):
        return autograd.applied(machine, obj, arguments, node)
    machine.call(arguments.first, Arguments([modules.any_part(machine, obj, method.name, node)]), node)
    return _itself(machine, obj, method, arguments, node)


def _set_attribute(machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """`super().__setattr__(name, value)`"""
    name = arguments.first.constant()
    if len(arguments.positional) == 2:
        key = name if isinstance(name, str) else classes.ANY
        storing.put(machine, core(obj), key, machine.tainted(arguments.positional[1]), node)
    return None


def _subclasses(machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    return classes.subclasses(machine, obj, node) if isinstance(obj, Class) else None


def _itself(machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value:
    receiver = method.receiver or NOTHING
    return receiver.of(obj.alone)


def _scaled(machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """`GradScaler.scale(loss)`"""
    if not isinstance(inner := core(obj), External) or not inner.name.endswith(".GradScaler"):
        return None
    return arguments.first


def _entry(machine: Machine, receiver: Value, obj: Method, arguments: Arguments) -> Value:
    """`cfg.training.get("device", default)` is `cfg.training.device`, or the default."""
    key, default = (arguments.get(word, place) or NOTHING for place, word in enumerate(("key", "default")))
    name = key.constant()
    if not isinstance(name, str) or not name.isidentifier():
        return NOTHING
    entry = machine.made(Method, obj.site, obj, name, receiver=receiver, name=name)
    return join(Value(entry.alone), default)


#: What has the methods that a class derived from a list or a dictionary has by itself.
_PLAIN: dict[type[Obj], tuple[type, ...]] = {Sequence: (list, collections.deque, set), Mapping: (dict,)}


def _own_method(machine: Machine, wrapped: Obj, name: str) -> Bound | None:
    """The method that a wrapped model of the script's own has: what is written reaches it inside the wrap."""
    inner = core(wrapped)
    if not isinstance(wrapped, Wrapped) or not wrapped.ours or not isinstance(inner, Instance):
        return None
    found = machine.attribute(inner, name).single()
    return found if isinstance(found, Bound) else None


def _name_of_result(machine: Machine, inner: Obj, method: str) -> str:
    """Of a long way only its beginning and its end are told: tables that are worked on in turns come by all ways."""
    by = modules.type_name(inner)
    if len(machine.through.get(inner, ())) >= _LONGEST_WAY:
        by = by.rpartition(".")[0]
    return f"{by}.{method}"


def _parameters(machine: Machine, model: Obj, name: str, node: cst.CSTNode) -> Value:
    some = machine.made(Parameters, node, model, of=model)
    value = Value(some.alone)
    if name == "parameters":
        return value
    pairs = machine.made(Sequence, node, model, "named")
    pair = machine.made(Sequence, node, model, "pair", items=(NOTHING, value))
    pairs.element = Value(pair.alone)
    return Value(pairs.alone)


def of_a_module(machine: Machine, method: Function, receiver: Obj, result: Value, node: cst.CSTNode) -> Value:
    """What a method returned; tensors that a module's own `parameters` picks are some of its parameters."""
    name = method.node.name.value if isinstance(method.node, cst.FunctionDef) else ""
    if name not in _PARAMETERS or not isinstance(receiver, Instance) or receiver.of is None:
        return result
    if not receiver.of.derives_from(torch_nn.MODULE) or any(isinstance(one, Parameters) for one in contained(result)):
        return result
    machine.optimized.add(receiver)
    return _parameters(machine, receiver, name, node)


def _members(machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value:
    model, name = core(obj), method.name
    element = modules.any_part(machine, obj, name, node)
    if name.startswith("named_"):
        element = Value(machine.made(Sequence, node, model, "pair", items=(NOTHING, element)).alone)
    return Value(machine.made(Sequence, node, model, "members", element=element).alone)


def _held_in_a_container(
    machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode
) -> Value | None:
    """`heads.values()`, `heads.items()` of a ModuleDict"""
    held = modules.held_by(obj)
    if held is None:
        return None
    pair = machine.made(Sequence, node, obj, "pair", items=(NOTHING, held))
    element = Value(pair.alone) if method.name == "items" else held
    return Value(machine.made(Sequence, node, obj, "held", element=element).alone)


def _submodule(machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`model.get_submodule("encoder.layers")`"""
    path = arguments.first.constant()
    found = Value(core(obj).alone)
    for name in path.split(".") if isinstance(path, str) and path else ():
        holder = found.single()
        known = core(holder).attributes.get(name) if holder is not None else None
        if known is None:
            return modules.any_part(machine, obj, method.name, node)
        found = known
    return found if isinstance(path, str) else modules.any_part(machine, obj, method.name, node)


def _parsed(machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value:
    name = method.name
    machine.event(Kind.ARGUMENTS_PARSED, node)
    parsed = machine.made(External, node, name, name=f"argparse.{name}")
    if arguments.get("namespace", 1) is not None:
        parsed.arguments = arguments
    value = Value(parsed.alone)
    if name == "parse_args":
        return value
    return Value(machine.made(Sequence, node, "known", items=(value, NOTHING)).alone)


def _in_pairs(machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """`dict(args._get_kwargs())`"""
    table = settings.fields_table(machine, obj).single() if settings.are_parsed(obj) else None
    return containers.method(machine, table, "items", arguments, node) if isinstance(table, Mapping) else None


def _as_dictionary(machine: Machine, obj: Obj, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    return records.as_dictionary(machine, Value(obj.alone), node) if holding.items_of(obj) is not None else None


#: Of objects of classes; None: what any method does.
_METHODS: dict[str, Callable[[Machine, Obj, Method, Arguments, cst.CSTNode], Value | None]] = {
    **dict.fromkeys(_PARAMETERS, _all_parameters),
    **dict.fromkeys(("modules", "children", "named_modules", "named_children"), _members),
    "get_submodule": _submodule,
    **dict.fromkeys(("values", "items"), _held_in_a_container),
    **dict.fromkeys(RETURN_THEMSELVES, _itself),
    **dict.fromkeys(python.PARSES_ARGUMENTS, _parsed),
    "apply": _apply,
    python.PARSED_IN_PAIRS: _in_pairs,
    python.TUPLE_AS_DICTIONARY: _as_dictionary,
    "__iter__": _iterator,
    "__setattr__": _set_attribute,
    "__new__": _new,
    "__subclasses__": _subclasses,
    using.FROM_PRETRAINED: _from_pretrained,
    "scale": _scaled,
    "save_for_backward": autograd.saved,
}
