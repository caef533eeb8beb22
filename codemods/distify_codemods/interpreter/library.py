"""What libraries do, as far as a conversion must know: torch above all, and Python's builtins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.events import Kind
from distify_codemods.interpreter import (
    classes,
    containers,
    cuts,
    evidence,
    files,
    forms,
    holding,
    interrupts,
    iteration,
    iterators,
    kinds,
    losses,
    modules,
    patterns,
    ranks,
    reading,
    records,
    reflection,
    runners,
    search_path,
    state,
    tensors,
    text,
)
from distify_codemods.libraries import (
    checkpoints,
    datasets,
    devices,
    distributed,
    drawing,
    effects,
    listings,
    parallel,
    progress,
    python,
    standard,
    torch_data,
    torch_nn,
    torch_optim,
    torch_tensors,
)
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.values import (
    CHANCE,
    NOTHING,
    PER_SAMPLE,
    Arguments,
    Bound,
    Class,
    Const,
    External,
    Function,
    Instance,
    Mapping,
    Method,
    Obj,
    Parameters,
    Partial,
    Passing,
    Scale,
    Sequence,
    Value,
    Wrapped,
    contained,
    core,
    join,
)

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: Methods of modules (and tensors) that return the object itself.
RETURN_THEMSELVES = frozenset(
    [
        "to",
        "cuda",
        "cpu",
        "float",
        "half",
        "double",
        "bfloat16",
        "train",
        "eval",
        "apply",
        "requires_grad_",
        "share_memory",
        "type",
        "to_empty",
    ]
)
#: Numbers that an operation in place makes others of: `correct.mul_(100 / len(batch))`.
_OF_A_BATCH = frozenset({Scale.SUM, Scale.COUNT, Scale.INVERSE, Scale.MEAN, Scale.WEIGHTED})
#: Methods that only modules have: who is asked for them is one.
_OF_MODULES = frozenset(
    ["parameters", "named_parameters", "state_dict", "load_state_dict", "train", "eval", "modules", "children"]
)
_PARAMETERS = frozenset(["parameters", "named_parameters"])
#: Their result is the time, the file system's state, a random draw.
_SOURCES = {
    "time.": "time",
    "datetime.": "time",
    "glob.": "file",
    **dict.fromkeys(listings.FUNCTIONS, "file"),
    **dict.fromkeys(drawing.STREAMS, CHANCE),
    **distributed.WHO,
}
#: Methods of tensors that rules look at: device spellings, the backward pass, and what shapes a tensor by a number.
_RECORDED = frozenset(
    [
        "backward",
        "cuda",
        "to",
        "step",
        "view",
        "reshape",
        "expand",
        "repeat",
        "new",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty",
        "new_tensor",
        "mkdir",
        "open",
        *listings.METHODS_THAT_TELL,
        *effects.WRITING_METHODS,
    ]
)


def record_call(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode, value: Value) -> None:
    machine.event(Kind.CALL, node, name=name, arguments=arguments, value=value)


def call_reference(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    special = (
        _FUNCTIONS.get(name)
        or kinds.FUNCTIONS.get(name)
        or iterators.FUNCTIONS.get(name)
        or reflection.FUNCTIONS.get(name)
    )
    known = special(machine, arguments, node) if special is not None else None
    if known is not None:
        value = known
    elif name in patterns.FUNCTIONS:
        value = patterns.FUNCTIONS[name](machine, arguments, node)
    elif name in records.NAMESPACES:
        value = records.namespace(machine, name, arguments, node)
    elif name.startswith("random.") and (cut := cuts.made(machine, name, arguments, node)) is not None:
        value = cut
    elif name.startswith("builtins."):
        value = containers.builtin_call(machine, name[9:], arguments, node)
    elif kind := text.splits_of(name):
        value = text.make_splits(machine, kind, arguments, node)
    elif name in python.RUNNERS:
        runners.run(machine, name, arguments, node)
        value = _external(machine, name, arguments, node)
    elif name.startswith(standard.CALL_AT_ANY_TIME):
        interrupts.call_back(machine, arguments, node)
        value = _external(machine, name, arguments, node)
    elif name in torch_data.LOADERS or name in torch_optim.MODES or name in drawing.GENERATORS or _is_class(name):
        value = _external(machine, name, arguments, node)
    elif torch_tensors.computes(name):
        value = tensors.function(machine, name, arguments, node)
    else:
        if not name.startswith(python.KEEPS):
            machine.call_back(arguments, node)
        value = _external(machine, name, arguments, node)
    own = _sources(name) | ranks.of_call(name, arguments) | files.seen_by_itself(machine, name, arguments, node)
    value = value.adding(own)
    value = forms.called(name, arguments, value)
    if machine.shared and CHANCE in value.sources:
        value = evidence.drawn(machine, value, arguments, node)
    if name != python.PRINT:
        record_call(machine, name, arguments, node, value)
    return value


def _sources(name: str) -> Ordered[Obj | str]:
    for prefix, source in _SOURCES.items():
        if name == prefix or (prefix.endswith(".") and name.startswith(prefix)):
            return Ordered([source])
    return EMPTY


def _is_class(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    if name == devices.DEVICE:
        return True
    made = name.startswith("torch.") and last.endswith("Tensor")  # torch.LongTensor(3) is a tensor
    return (last[:1].isupper() or last == "?") and not made


def _external(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    """A new object of a library; what it says of the batches that were given to it is not known."""
    obj = machine.made(External, node, name, name=name)
    obj.arguments = arguments if obj.arguments is None else obj.arguments.joined(arguments)
    return _made(obj, arguments)


def _made(obj: Obj, arguments: Arguments) -> Value:
    given = arguments.all()
    sources = EMPTY.union(*(value.sources for value in given))
    scale = Scale.UNKNOWN if any(value.scale is not Scale.CONST for value in given) else Scale.CONST
    kept = sources if scale is not Scale.CONST else EMPTY.union(*map(files.origins, given))
    return Value(obj.alone, scale, kept)


def unknown_call(machine: Machine, callee: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    """A call of something that is not known at all."""
    given = [callee, *arguments.all()]
    sources = EMPTY.union(*(value.sources for value in given))
    scale = Scale.UNKNOWN if any(value.scale is not Scale.CONST for value in given) else Scale.CONST
    obj = machine.made(External, node, "?", name="?")
    obj.arguments = arguments
    value = Value(obj.alone, scale, sources)
    record_call(machine, "?", arguments, node, value)
    machine.call_back(arguments, node)
    return value


def call_external_object(machine: Machine, obj: External, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`criterion(output, target)`, `net(x)`: an object of a library is called."""
    known_module = losses.of_module(obj, arguments) or cuts.of_module(machine, obj, arguments, node)
    if known_module is not None:
        return known_module
    if obj.name in patterns.LAYERS:
        options = obj.arguments or Arguments()
        return patterns.layer(machine, options, arguments, node, patterns.LAYERS[obj.name])
    if obj.name in torch_nn.ALONG and arguments.positional:
        options = obj.arguments or Arguments()
        if (options.get("dim", 0) or NOTHING).constant() == 0:
            return tensors.method(machine, arguments.positional[0], torch_nn.ALONG[obj.name], options, node)
    given = arguments.all()
    sources = EMPTY.union(*(value.sources for value in given))
    scales = {value.scale for value in given} - {Scale.CONST}
    if scales & {Scale.COUPLED, Scale.SLOPES} or cuts.couples(machine, obj, scales):
        return Value(scale=Scale.COUPLED, sources=sources)
    known = obj in machine.modules or obj.name.startswith((torch_nn.OWN, "torchvision."))
    if not scales:
        return Value(sources=sources)
    if known and scales & PER_SAMPLE:
        scale = Scale.TURNED if scales == {Scale.TURNED} else Scale.SAMPLES
        return Value(scale=scale, sources=sources, deep=obj.name in torch_nn.DEEP)
    return Value(scale=Scale.UNKNOWN, sources=sources)


# ---- methods


def call_method(machine: Machine, method: Method, arguments: Arguments, node: cst.CSTNode) -> Value:
    receiver, name = method.receiver or NOTHING, method.name
    obj = receiver.single()
    if name == "__init__" and isinstance(obj, Instance):
        machine.given[obj] = arguments
        classes.derive(machine, obj, arguments, node)
    value = _method_value(machine, method, receiver, obj, name, arguments, node)
    if machine.cutting is not None and obj is not None:
        value = cuts.foreign(machine, obj, name, value, arguments, node)
    modules.add(machine, obj, name, arguments)
    if name == "copy_" and isinstance(node, cst.Call) and arguments.positional:
        holding.fill(machine, node.func, arguments.positional[0])
    elif name in ("add_", "sub_", "mul_") and isinstance(node, cst.Call):  # a batch that moves along its gradient
        coupled = [one for one in arguments.all() if one.scale in (Scale.SLOPES, Scale.COUPLED)]
        if coupled and receiver.scale in PER_SAMPLE:
            holding.fill(machine, node.func, Value(scale=Scale.COUPLED, sources=receiver.sources))
    if name.endswith("_"):
        if isinstance(node, cst.Call) and receiver.scale in _OF_A_BATCH and value.scale is not receiver.scale:
            holding.fill(machine, node.func, value)
        state.method(machine, name, node, join(*arguments.all()), torch_data.LOADERS)
    if name in drawing.METHODS:
        value = value.adding([CHANCE])
        value = evidence.drawn(machine, value, arguments, node) if machine.shared else value
    value = forms.called(name, arguments, value, receiver)
    value = interrupts.told(machine, receiver, files.carried(machine, receiver, name, arguments, value, node))
    interesting = obj is not None or name in _RECORDED or (name.endswith("_") and not name.endswith("__"))
    if interesting:
        machine.event(
            Kind.METHOD, node, name=name, receiver=receiver, receiver_node=method.receiver_node,
            arguments=arguments, value=value,
        )  # fmt: skip
    return value


def _method_value(
    machine: Machine,
    method: Method,
    receiver: Value,
    obj: Obj | None,
    name: str,
    arguments: Arguments,
    node: cst.CSTNode,
) -> Value:
    if isinstance(obj, (Sequence, Mapping, Passing)):
        return containers.method(machine, obj, name, arguments, node)
    if isinstance(obj, Const) and isinstance(obj.value, str):
        sources = EMPTY.union(*(value.sources for value in arguments.all()))
        return Value(sources=sources)
    if isinstance(obj, Method) and name in _PARAMETERS and obj.receiver is not None:
        whole = [core(one) for one in obj.receiver.objs if isinstance(one, (Instance, External, Wrapped))]
        return join(*(_parameters(machine, one, name, node) for one in whole)) if whole else NOTHING
    if isinstance(obj, Method) and name == "get":
        return join(tensors.method(machine, receiver, name, arguments, node), _entry(machine, receiver, obj, arguments))
    if isinstance(obj, (Instance, External, Wrapped, Class)):
        inner = core(obj)
        if name in _OF_MODULES:
            machine.modules.add(inner)
        if name in _PARAMETERS:
            machine.optimized.add(inner)
            return _parameters(machine, inner, name, node)
        if name in _MEMBERS:
            return _members(machine, inner, name, node)
        if name == "__iter__" and isinstance(obj, External):
            return iteration.begin(machine, receiver, node, method.receiver_node or cst.Name("_"))
        if name == "__iter__" and isinstance(obj, Instance) and obj.base is not None:
            return iterators.passing(machine, node, Value(obj.base.alone))
        if name == "__new__" and isinstance(obj, Class):
            return Value(machine.made(Instance, node, obj, of=obj).alone)
        if name == "__subclasses__" and isinstance(obj, Class):
            return classes.subclasses(machine, obj, node)
        if name in RETURN_THEMSELVES:
            return Value(obj.alone, receiver.scale, receiver.sources)
        if name in ("parse_args", "parse_known_args"):
            return _parsed(machine, name, node)
        if isinstance(inner, External) and inner.name.endswith(".GradScaler") and name == "scale":
            return arguments.positional[0] if arguments.positional else NOTHING
        folded = cuts.folded(machine, name, receiver, arguments, node)
        if folded is not None:
            return folded
        if (own := _own_method(machine, obj, name)) is not None:
            return machine.call_object(own, arguments, node)
        if isinstance(inner, External) and receiver.scale is not Scale.CONST:
            return tensors.method(machine, receiver, name, arguments, node)
        returned = machine.call_back(arguments, node)
        if name == "step" and returned.sources:  # of an optimizer: the loss that its closure computed
            return Value(scale=returned.scale, sources=returned.sources)
        if node in machine.through.get(inner, ()):  # once more around a loop: nothing else than before
            return _made(inner, arguments)
        value = _external(machine, f"{_type_name(inner)}.{name}", arguments, node)
        for made in value.objs:
            machine.through[made] = machine.through.get(inner, frozenset()) | {node}
        return value
    return tensors.method(machine, receiver, name, arguments, node)


def _entry(machine: Machine, receiver: Value, obj: Method, arguments: Arguments) -> Value:
    """`cfg.training.get("device", default)` is `cfg.training.device`, or the default."""
    key, default = (arguments.get(word, place) or NOTHING for place, word in enumerate(("key", "default")))
    name = key.constant()
    if not isinstance(name, str) or not name.isidentifier():
        return NOTHING
    entry = machine.made(Method, obj.site, obj, name, receiver=receiver, name=name)
    return join(Value(entry.alone), default)


def _own_method(machine: Machine, wrapped: Obj, name: str) -> Bound | None:
    """The method that a wrapped model of the script's own has: what is written reaches it inside the wrap."""
    inner = core(wrapped)
    if not isinstance(wrapped, Wrapped) or not wrapped.ours or not isinstance(inner, Instance):
        return None
    found = machine.attribute(inner, name).single()
    return found if isinstance(found, Bound) else None


def _type_name(obj: Obj) -> str:
    if isinstance(obj, External):
        return obj.name
    return obj.of.node.name.value if isinstance(obj, Instance) and obj.of and obj.of.node else ""


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


#: Methods of modules that go through their parts.
_MEMBERS = ("modules", "children", "named_modules", "named_children")


def _members(machine: Machine, model: Obj, name: str, node: cst.CSTNode) -> Value:
    part = machine.made(External, node, model, name=f"{_type_name(model)}.{name}[]", whole=model)
    element = Value(part.alone)
    if name.startswith("named_"):
        element = Value(machine.made(Sequence, node, model, "pair", items=(NOTHING, element)).alone)
    return Value(machine.made(Sequence, node, model, "members", element=element).alone)


def _parsed(machine: Machine, name: str, node: cst.CSTNode) -> Value:
    machine.event(Kind.ARGUMENTS_PARSED, node)
    parsed = machine.made(External, node, name, name=f"argparse.{name}")
    value = Value(parsed.alone)
    if name == "parse_args":
        return value
    return Value(machine.made(Sequence, node, "known", items=(value, NOTHING)).alone)


# ---- functions of their own


def _wrap(machine: Machine, arguments: Arguments, node: cst.CSTNode, ours: bool) -> Value:
    module = arguments.get("module", 0) or NOTHING
    if not ours and machine.drop_data_parallel:
        return module
    return Value(Ordered(machine.made(Wrapped, node, obj, ours, inner=obj, ours=ours) for obj in module.objs))


def _first(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    return arguments.positional[0] if arguments.positional else NOTHING


def _progress_bar(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    over = arguments.get("iterable", 0) or NOTHING
    return Value(machine.made(Passing, node, over=over).alone, over.scale, over.sources)


def _counting(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    return containers.builtin_call(machine, "range", arguments, node)


def _in_parallel(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`data_parallel(model, inputs)` returns what the model does; a tuple of inputs are its arguments."""
    inputs = arguments.get("inputs", 1) or NOTHING
    only = inputs.single()
    given = list(only.items) if isinstance(only, Sequence) and only.items is not None else [inputs]
    return machine.call(arguments.get("module", 0) or NOTHING, Arguments(given), node)


def _checkpointed(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`checkpoint(function, *arguments)` returns what the function does."""
    function = arguments.get("function", 0) or NOTHING
    own = ("function", "use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop")
    keywords = {name: value for name, value in arguments.keywords.items() if name not in own}
    given = arguments.positional if "function" in arguments.keywords else arguments.positional[1:]
    return machine.call(function, Arguments(given, keywords, arguments.star, arguments.double_star), node)


def _initialised(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`amp.initialize(models, optimizers)` gives both back."""
    parts = [arguments.get("models", 0), arguments.get("optimizers", 1)]
    given = tuple(part for part in parts if part is not None)
    if len(given) == 1:
        return given[0]
    return Value(machine.made(Sequence, node, "both", items=given).alone)


def _loaded(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """A data set, or a stream of it; so is what is made of that."""
    streaming = arguments.get("streaming")
    whole = streaming is None or streaming.constant() is False
    return _external(machine, "datasets.load_dataset" if whole else datasets.STREAMED, arguments, node)


def _leave(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    machine.event(Kind.LEAVE, node, name="exit")
    return NOTHING


def _partial(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    if not arguments.positional:
        return NOTHING
    given = Arguments(arguments.positional[1:], arguments.keywords, arguments.star, arguments.double_star)
    partial = machine.made(Partial, node, function=arguments.positional[0])
    partial.arguments = given
    return Value(partial.alone)


_FUNCTIONS: dict[str, Callable[[Machine, Arguments, cst.CSTNode], Value | None]] = {
    **dict.fromkeys(
        (torch_nn.DATA_PARALLEL, *distributed.WRAPS),
        lambda machine, arguments, node: _wrap(machine, arguments, node, ours=False),
    ),
    parallel.COUNT: lambda machine, arguments, node: _external(machine, parallel.COUNT, arguments, node),
    torch_optim.CHECKPOINT: _checkpointed,
    **dict.fromkeys(parallel.FUNCTIONAL, _in_parallel),
    **dict.fromkeys(torch_nn.GIVE_BACK, _first),
    checkpoints.LOAD: reading.read,
    "datasets.load_dataset": _loaded,
    "collections.OrderedDict": containers.dictionary,
    "collections.defaultdict": containers.default_dictionary,
    "apex.amp.initialize": _initialised,
    "functools.partial": _partial,
    "sys.path.append": search_path.append,
    "sys.path.insert": search_path.insert,
    **dict.fromkeys(python.EXITS, _leave),
    **dict.fromkeys(progress.BARS, _progress_bar),
    progress.RANGE: _counting,
}
