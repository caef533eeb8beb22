"""What libraries do, as far as a conversion must know: torch above all, and Python's builtins."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.events import Kind
from distify_codemods.inside import core, values_in
from distify_codemods.interpreter import (
    changing,
    commands,
    containers,
    cuts,
    evidence,
    files,
    forms,
    holding,
    interrupts,
    iterators,
    kinds,
    losses,
    modules,
    patterns,
    ranks,
    reading,
    rearranged,
    records,
    recurrent,
    reflection,
    rows,
    runners,
    scales,
    search_path,
    special,
    state,
    tensor_functions,
    text,
)
from distify_codemods.interpreter.cut_sizes import size_objs
from distify_codemods.libraries import (
    checkpoints,
    computing,
    datasets,
    devices,
    distributed,
    drawing,
    in_place,
    listings,
    parallel,
    progress,
    python,
    seeding,
    settings,
    spelling,
    standard,
    torch_data,
    torch_nn,
    torch_optim,
    torch_tensors,
)
from distify_codemods.libraries.commands import CALLERS
from distify_codemods.objects import Arguments, External, Partial, Passing, Sequence, Wrapped
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import CHANCE, Labelled
from distify_codemods.scale import FIGURES, LOST, PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value, join, sources_of

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: Their result is the time, the file system's state, a random draw.
_SOURCES = {
    "time.": "time",
    "datetime.": "time",
    "glob.": "file",
    **dict.fromkeys(listings.FUNCTIONS, "file"),
    **dict.fromkeys(drawing.STREAMS, CHANCE),
    **distributed.WHO,
}


def call_reference(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    function = _FUNCTIONS.get(name)
    known = function(machine, arguments, node) if function is not None else None
    if known is not None:
        value = known
    elif name in settings.NAMESPACES:
        value = records.namespace(machine, name, arguments, node)
    elif name.startswith("random.") and (cut := cuts.made(machine, name, arguments, node)) is not None:
        value = cut
    elif name.startswith("builtins."):
        told = special.converted(machine, name[9:], arguments.first, node, *arguments.positional[1:])
        value = containers.builtin_call(machine, name[9:], arguments, node) if told is None else told
    elif kind := text.splits_of(name):
        value = text.make_splits(machine, kind, arguments, node)
    elif name in CALLERS or name in python.RUNNERS:
        value = _run(machine, name, arguments, node)
    elif name.startswith(standard.CALL_AT_ANY_TIME):
        interrupts.call_back(machine, arguments, node)
        value = external(machine, name, arguments, node)
    elif name in torch_data.LOADERS:
        machine.batch_sizes.add_all(size_objs(arguments.get("batch_size", 1) or NOTHING))
        value = external(machine, name, arguments, node)
    elif name in torch_nn.MADE_OF_WEIGHTS:
        value = external(machine, torch_nn.MADE_OF_WEIGHTS[name], Arguments(), node)
    elif name in torch_optim.MODES or name in drawing.GENERATORS or seeding.is_seeding(name) or _is_class(name):
        value = external(machine, name, arguments, node)
    elif (loss := losses.of_function(name, arguments)) is not None:
        value = loss
    elif (method := torch_tensors.unbound(name)) and arguments.positional:
        value = reflection.of_a_tensor(machine, method, arguments, node)
    elif torch_tensors.computes(name):
        value = tensor_functions.function(machine, name, arguments, node)
    else:
        if not name.startswith(python.KEEPS):
            machine.call_back(arguments, node)
        value = external(machine, name, arguments, node)
        if name.startswith(computing.RELATING) and any(one.scale in PER_SAMPLE for one in arguments.all()):
            value = Value(value.objs, Scale.COUPLED, arguments.sources)
    own = _sources(name) | ranks.of_call(name, arguments) | files.seen_by_itself(machine, name, arguments, node)
    value = value.adding(own)
    value = rearranged.made_of(machine, name, arguments, value, node)
    value = evidence.played(machine, name, None, value, node)
    value = forms.called(name, arguments, value)
    if machine.tells_draws and CHANCE in value.sources:
        value = evidence.drawn(machine, value, arguments, node, certain=drawing.draws_numbers(name))
    if name != python.PRINT:
        machine.event(Kind.CALL, node, name=name, arguments=arguments, value=value)
    if name in in_place.SHUFFLING:
        holding.reordered(machine, name, node)
    for place in in_place.written_by(name, node):
        given = join(*(one for value in arguments.all() for one in values_in(value)))
        adds = name in in_place.ADDS
        state.written(machine, place, node, given, torch_data.LOADERS, adds=adds, anywhere=adds)
        into = machine.values.get(place, NOTHING)
        changing.changed(machine, place, into, given, in_place.is_of_arrays(name) or value.scale in LOST)
        if value.scale in FIGURES:  # `torch.sub(x, x.mean(0), out=x)`
            holding.relate(machine, place, machine.values.get(place, NOTHING), value)
    return value


def _run(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    """What runs a function that it is given."""
    if name not in CALLERS:
        runners.run(machine, name, arguments, node)
    elif (returned := commands.run(machine, name, arguments, node)).objs and CALLERS[name].returns:
        return returned
    return external(machine, name, arguments, node)


@cache
def _sources(name: str) -> Ordered[Obj | str]:
    for prefix, source in _SOURCES.items():
        if name == prefix or (prefix.endswith(".") and name.startswith(prefix)):
            return Ordered([source])
    return EMPTY


def _is_class(name: str) -> bool:
    if name == devices.DEVICE:
        return True
    made = name.startswith("torch.") and name.endswith("Tensor")  # torch.LongTensor(3) is a tensor
    return (spelling.is_a_class(name) or name.endswith("?")) and not made


def external(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value:
    """A new object of a library; what it says of the batches that were given to it is not known."""
    obj = machine.made(External, node, name, name=name)
    obj.arguments = arguments if obj.arguments is None else obj.arguments.joined(arguments)
    return made_of(obj, arguments)


def made_of(obj: Obj, arguments: Arguments) -> Value:
    given = arguments.all()
    sources = sources_of(given)
    scale = Scale.UNKNOWN if any(value.scale is not Scale.CONST for value in given) else Scale.CONST
    kept = sources if scale is not Scale.CONST else EMPTY.union(*map(files.origins, given))
    return Value(obj.alone, scale, kept)


def unknown_call(machine: Machine, callee: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    """A call of something that is not known at all."""
    given = [callee, *arguments.all()]
    sources = sources_of(given)
    scale = Scale.UNKNOWN if any(value.scale is not Scale.CONST for value in given) else Scale.CONST
    obj = machine.made(External, node, "?", name="?")
    obj.arguments = arguments
    value = Value(obj.alone, scale, sources)
    machine.event(Kind.CALL, node, name="?", arguments=arguments, value=value)
    machine.call_back(arguments, node)
    return value


def call_external_object(machine: Machine, obj: External, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`criterion(output, target)`, `net(x)`: an object of a library is called."""
    value = _of_an_object(machine, obj, arguments, node)
    inplace = (obj.arguments or Arguments()).get("inplace")
    if inplace is not None and inplace.constant() is not False and isinstance(node, cst.Call):
        changing.changed(machine, node, arguments.first, NOTHING)
    told = [one for name, one in obj.attributes.items() if name in torch_tensors.SETTINGS]
    return scales.set_by(value, told)  # `activation.negative_slope = ...`


def _of_an_object(machine: Machine, obj: External, arguments: Arguments, node: cst.CSTNode) -> Value:
    if obj.name == python.METHOD_CALLER and obj.arguments is not None:
        return reflection.call_by_name(machine, obj.arguments, obj.site, arguments.first, node)
    known_module = losses.of_module(obj, arguments) or recurrent.output_of(machine, obj, arguments, node)
    if known_module is not None:
        return known_module
    if obj.name in patterns.LAYERS:
        options = obj.arguments or Arguments()
        return patterns.layer(machine, options, arguments, node, patterns.LAYERS[obj.name])
    sources = arguments.sources
    along = (obj.arguments or Arguments()).get("dim", 0)
    chosen = torch_nn.chooses_the_first(obj.name, along is not None, arguments.first.dims)
    if obj.name in torch_nn.ALONG and (chosen or (along or NOTHING).constant() == 0):
        scale = scales.elementwise(*(value.scale for value in arguments.all()))
        return Value(scale=scales.along(scale, 0, scales.of_extremes(scale)), sources=sources)
    given = {value.scale for value in arguments.all()} - {Scale.CONST}
    along_others = given & PER_SAMPLE == {Scale.TURNED} and obj.name not in torch_nn.BESIDE
    if given & {Scale.COUPLED, Scale.SLOPES} or along_others:
        return Value(scale=Scale.COUPLED, sources=sources, one_row=rows.through(obj, arguments))
    known = modules.is_known(machine, obj)
    one_row = rows.through(obj, arguments)
    if not given:
        return Value(sources=sources, one_row=one_row)
    if known and given & PER_SAMPLE:
        scale = Scale.TURNED if given == {Scale.TURNED} else Scale.SAMPLES
        first, stars = "labels" in arguments.keywords, arguments.star is not None or arguments.double_star is not None
        if computing.has_a_label_for_each_sample(obj.name) and (first or stars):
            return Value(scale=scale, sources=sources | [machine.made(Labelled, node, first, first=first)])
        if _lists_features(obj):
            features = machine.made(Sequence, node, obj, "features", lengths=((node, Value()),))
            features.grow(Value(scale=scale, sources=sources, dims=4))
            return Value(features.alone, scale, sources)
        dims = _dims_of(obj, arguments.first.dims)
        return Value(scale=scale, sources=sources, dims=dims, one_row=one_row)
    return Value(scale=Scale.UNKNOWN, sources=sources)


def _lists_features(model: External) -> bool:
    """`timm.create_model(name, features_only=True)`"""
    by = computing.told_to_list(model.name)
    told = model.arguments.keywords.get(by) if by and model.arguments is not None else None
    return by == "" or (told is not None and told.constant() is True)


def _dims_of(layer: Obj | None, given: int) -> int:
    """How many dimensions its output has at least, given something that has so many; of layers in a row, the last's."""
    if not isinstance(layer, External):
        return 0
    made = layer.arguments or Arguments()
    if layer.name == torch_nn.FLATTENS:
        return 0 if made.all() else 2
    if layer.name != torch_nn.SEQUENTIAL:
        return torch_nn.dims_of(layer.name, given)
    if layer.attributes:
        return 0
    if made.star is not None:
        lists = [one.parts() if isinstance(one, Sequence) else (NOTHING,) for one in made.star.objs]
        known = lists and not made.star.open
        return _dims_of_any([*made.positional, *(part for one in lists for part in one)]) if known else 0
    for one in made.positional:
        only = one.single()
        given = _dims_of(core(only) if only is not None and not one.open else None, given)
    return given


def _dims_of_any(layers: list[Value]) -> int:
    """The same, of a row of some of these, in an order that is not seen: `nn.Sequential(*layers)`."""
    found = [core(obj) for value in layers for obj in value.objs]
    seen = [one for one in found if isinstance(one, External)]
    if len(seen) < len(found) or any(value.open or not value.objs for value in layers):
        return 0
    flattening = [one for one in seen if one.name == torch_nn.FLATTENS]
    others = {one.name for one in seen} - {torch_nn.FLATTENS, torch_nn.EMBEDDING}
    if not all(map(torch_nn.keeps_dims, others)) or any((one.arguments or Arguments()).all() for one in flattening):
        return 0
    most = max((torch_nn.dims_of(one.name, 0) for one in seen), default=0)
    return min(most, 2) if flattening else most


# ---- functions of their own


def _wrap(machine: Machine, arguments: Arguments, node: cst.CSTNode, ours: bool) -> Value:
    module = arguments.get("module", 0) or NOTHING
    machine.data_parallel |= not ours
    if not ours and machine.drop_data_parallel:
        for obj in module.objs:
            machine.unwrapped.add(obj)
        return module
    return Value(Ordered(machine.made(Wrapped, node, obj, ours, inner=obj, ours=ours) for obj in module.objs))


def _first(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    return arguments.first


def _part(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """A parameter is the tensor that it is given; a module's, made with it, was drawn once, and alike for all ranks."""
    return forms.settled(machine, arguments.first)


def _progress_bar(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    over = arguments.get("iterable", 0) or NOTHING
    return over.of(machine.made(Passing, node, over=over, drawn=True).alone)


def _counting(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    return containers.builtin_call(machine, "range", arguments, node)


def _in_parallel(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`data_parallel(model, inputs)` returns what the model does; a tuple of inputs are its arguments."""
    inputs = arguments.get("inputs", 1) or NOTHING
    only = inputs.single()
    given = list(only.items) if isinstance(only, Sequence) and only.items is not None else [inputs]
    return machine.call(arguments.get("module", 0) or NOTHING, Arguments(given), node)


def _with_parameters(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`functional_call(module, parameters, arguments)` returns what the module does, with these parameters."""
    given = arguments.get("args", 2) or NOTHING
    only = given.single()
    positional = list(only.items) if isinstance(only, Sequence) and only.items is not None else [given]
    result = machine.call(arguments.get("module", 0) or NOTHING, Arguments(positional), node)
    changed = arguments.get("parameters_and_buffer_dicts", 1) or NOTHING
    return result.adding(source for one in values_in(changed) for source in one.sources)


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
    return external(machine, "datasets.load_dataset" if whole else datasets.STREAMED, arguments, node)


def _leave(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    machine.event(Kind.LEAVE, node, name="exit")
    return NOTHING


def _partial(machine: Machine, arguments: Arguments, node: cst.CSTNode, method: bool = False) -> Value:
    if not arguments.positional:
        return NOTHING
    given = arguments.rest
    made = machine.made(Partial, node, function=arguments.positional[0], method=method)
    made.arguments = given
    return Value(made.alone)


_FUNCTIONS: dict[str, Callable[[Machine, Arguments, cst.CSTNode], Value | None]] = {
    **patterns.FUNCTIONS,
    **reflection.FUNCTIONS,
    **iterators.FUNCTIONS,
    **kinds.FUNCTIONS,
    **dict.fromkeys(
        distributed.AROUND,
        lambda machine, arguments, node: _wrap(machine, arguments, node, ours=False),
    ),
    parallel.COUNT: lambda machine, arguments, node: external(machine, parallel.COUNT, arguments, node),
    torch_optim.CHECKPOINT: _checkpointed,
    **dict.fromkeys(parallel.FUNCTIONAL, _in_parallel),
    **dict.fromkeys(torch_nn.WITH_PARAMETERS, _with_parameters),
    **dict.fromkeys(torch_nn.GIVE_BACK, _first),
    **dict.fromkeys(torch_nn.PARTS, _part),
    checkpoints.LOAD: reading.read,
    "datasets.load_dataset": _loaded,
    "collections.OrderedDict": containers.dictionary,
    "collections.defaultdict": containers.default_dictionary,
    python.COUNTER: containers.counter,
    "apex.amp.initialize": _initialised,
    python.PARTIAL: _partial,
    python.PARTIAL_METHOD: partial(_partial, method=True),
    f"{python.SEARCH_PATH}.append": search_path.append,
    f"{python.SEARCH_PATH}.insert": search_path.insert,
    f"{python.SEARCH_PATH}.extend": search_path.extend,
    "site.addsitedir": search_path.append,
    **dict.fromkeys(python.EXITS, _leave),
    **dict.fromkeys(progress.BARS, _progress_bar),
    progress.RANGE: _counting,
}
