"""Calls: local functions are followed, classes instantiated, libraries asked (see `library`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.events import Event, Kind
from distify_codemods.interpreter import attributes, cuts, expressions, library, targets
from distify_codemods.interpreter import machine as machines
from distify_codemods.values import (
    NOTHING,
    PER_SAMPLE,
    Arguments,
    Bound,
    Class,
    External,
    Function,
    Instance,
    Mapping,
    Method,
    Obj,
    Partial,
    Ref,
    Scale,
    Sequence,
    Value,
    Wrapped,
    contained,
    join,
)

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Frame, Machine


def no_arguments() -> Arguments:
    return Arguments()


def evaluate_call(machine: Machine, node: cst.Call) -> Value:
    if isinstance(node.func, cst.Attribute) and isinstance(node.func.value, cst.Call):
        inner = node.func.value
        if isinstance(inner.func, cst.Name) and inner.func.value == "super":
            return _super(machine, node, node.func.attr.value)
    callee = expressions.evaluate(machine, node.func)
    arguments = _arguments(machine, node)
    if not callee.objs:
        return library.unknown_call(machine, callee, arguments, node)
    return call(machine, callee, arguments, node)


def _arguments(machine: Machine, node: cst.Call) -> Arguments:
    found = Arguments()
    for argument in node.args:
        value = expressions.evaluate(machine, argument.value)
        if argument.star == "*":
            found.star = value
        elif argument.star == "**":
            found.double_star = value
        elif argument.keyword is not None:
            found.keywords[argument.keyword.value] = value
        else:
            found.positional.append(value)
    return found


def call(machine: Machine, callee: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    objs = [obj for obj in callee.objs if len(callee.objs) == 1 or _accepts(obj, arguments)]
    return join(*(call_object(machine, obj, arguments, node) for obj in objs)) if objs else NOTHING


def _accepts(obj: Obj, arguments: Arguments) -> bool:
    """Of several things that may be called here, only those that take these arguments can be meant."""
    if arguments.star is not None or arguments.double_star is not None:
        return True
    function = obj
    if isinstance(obj, Class):
        own = next((cls.attributes["__init__"] for cls in obj.ancestors() if "__init__" in cls.attributes), NOTHING)
        function = own.single() or obj
    if not isinstance(function, Function) or function.node is None:
        return True
    params = function.node.params
    names = [param.name.value for param in (*params.posonly_params, *params.params) if param.default is None]
    missing = names[1:] if isinstance(obj, Class) else names
    missing = [name for name in missing[len(arguments.positional) :] if name not in arguments.keywords]
    return not missing


def call_object(machine: Machine, obj: Obj, arguments: Arguments, node: cst.CSTNode) -> Value:
    if isinstance(obj, Function):
        return invoke(machine, obj, arguments, node)
    if isinstance(obj, Bound) and obj.function is not None and obj.receiver is not None:
        return invoke(machine, obj.function, arguments, node, obj.receiver)
    if isinstance(obj, Class):
        return _instantiate(machine, obj, arguments, node)
    if isinstance(obj, Partial) and obj.function is not None and obj.arguments is not None:
        return call(machine, obj.function, _combined(obj.arguments, arguments), node)
    if isinstance(obj, Ref):
        return library.call_reference(machine, obj.name, arguments, node)
    if isinstance(obj, Method):
        return library.call_method(machine, obj, arguments, node)
    if isinstance(obj, (Instance, External, Wrapped)):
        return _forward(machine, obj, arguments, node)
    return NOTHING


def _combined(first: Arguments, more: Arguments) -> Arguments:
    return Arguments(
        [*first.positional, *more.positional],
        {**first.keywords, **more.keywords},
        more.star or first.star,
        more.double_star or first.double_star,
    )


def _instantiate(machine: Machine, cls: Class, arguments: Arguments, node: cst.CSTNode) -> Value:
    obj = machine.made(Instance, node, cls, of=cls)
    assert isinstance(obj, Instance)
    library.record_call(
        machine, f"local.{cls.node.name.value if cls.node else ''}", arguments, node, Value(frozenset({obj}))
    )
    method = attributes.instance_attribute(machine, obj, "__init__", NOTHING, None)
    for one in method.objs:
        call_object(machine, one, arguments, node)
    return Value(frozenset({obj}))


def _forward(machine: Machine, obj: Instance | External | Wrapped, arguments: Arguments, node: cst.CSTNode) -> Value:
    """An object called like a function: a model, a loss, a callable of any kind."""
    place = node.func if isinstance(node, cst.Call) else None
    machine.event(Kind.FORWARD, node, receiver=Value(frozenset({obj})), receiver_node=place, arguments=arguments)
    inner: Obj = obj
    while isinstance(inner, Wrapped) and inner.inner is not None:
        inner = inner.inner
    result = _run_forward(machine, inner, arguments, node)
    if machine.cutting is not None and inner in machine.optimized:
        result = cuts.marked(machine, result, node, frozenset({cuts.OUTPUT}))
    return result


def _run_forward(machine: Machine, inner: Obj, arguments: Arguments, node: cst.CSTNode) -> Value:
    if isinstance(inner, External):
        return library.call_external_object(machine, inner, arguments, node)
    if not isinstance(inner, Instance):
        return NOTHING
    for name in ("__call__", "forward"):
        method = attributes.instance_attribute(machine, inner, name, NOTHING, None)
        if method.objs:
            machine.inside_models += name == "forward"
            result = call(machine, method, arguments, node)
            machine.inside_models -= name == "forward"
            return _per_sample(result, arguments) if name == "forward" else result
    return library.unknown_call(machine, NOTHING, arguments, node)


def _per_sample(result: Value, arguments: Arguments) -> Value:
    """A module that maps samples to something that cannot be followed is taken to map each sample by itself."""
    scales = {value.scale for value in arguments.all()}
    if result.scale in (Scale.UNKNOWN, Scale.CONST) and scales & PER_SAMPLE:
        sources = result.sources.union(*(value.sources for value in arguments.all()))
        return Value(result.objs, Scale.SAMPLES, sources)
    return result


# ---- local functions


def invoke(
    machine: Machine, function: Function, arguments: Arguments, node: cst.CSTNode, receiver: Obj | None = None
) -> Value:
    definition = function.node
    frame = machine.frame
    if definition is None or len(frame.context) >= machines.DEEPEST or _running(machine, definition):
        return library.unknown_call(machine, NOTHING, arguments, node)
    key = _key(machine, function, arguments, receiver)
    if key in machine.summaries:
        return machine.summaries[key]
    began = machine.traces
    value = _run(machine, function, definition, arguments, node, receiver)
    if machine.traces == began:
        machine.summaries[key] = value
    return value


def _key(machine: Machine, function: Function, arguments: Arguments, receiver: Obj | None) -> tuple[object, ...]:
    given = (*arguments.positional, *arguments.keywords, *arguments.keywords.values())
    return (function, receiver, given, arguments.star, arguments.double_star, machine.grad, machine.control)


_TRACELESS = frozenset({Kind.ATTRIBUTE, Kind.TEST, Kind.ASSERT})


def leaves_no_trace(machine: Machine, event: Event) -> bool:
    """Whether a call that did nothing else may be summed up by its value the next time it is made alike."""
    if event.kind in _TRACELESS:
        return True
    if event.kind is Kind.CALL:
        pure = machine.inside_models > 0 or event.name.startswith(library.PURE)
        return pure and event.name not in library.IMPURE and not event.name.startswith("local.")
    if event.kind is Kind.FORWARD:
        return not any(isinstance(obj, Wrapped) or obj in machine.optimized for obj in event.receiver.objs)
    if event.kind is Kind.METHOD:
        return not any(isinstance(obj, (Instance, External, Wrapped, Mapping)) for obj in event.receiver.objs)
    if event.kind is Kind.LOOP:
        return not any(isinstance(obj, External) and obj.name in attributes.LOADERS for obj in contained(event.value))
    return event.kind is Kind.LEAVE and event.name == "return"


def _run(
    machine: Machine,
    function: Function,
    definition: cst.FunctionDef | cst.Lambda,
    arguments: Arguments,
    node: cst.CSTNode,
    receiver: Obj | None,
) -> Value:
    assert function.module is not None
    context = (*machine.frame.context, node)
    inner = machines.Frame(definition, function.module, context, function.closure, function=function)
    _bind_parameters(machine, inner, definition.params, arguments, receiver, node)
    if isinstance(definition, cst.Lambda):
        return _in_frame(machine, inner, definition.body)
    if _without_gradients(machine, definition):
        grad, machine.grad = machine.grad, False
        machine.run_frame(inner, definition.body.body)
        machine.grad = grad
    else:
        machine.run_frame(inner, definition.body.body)
    if inner.yielded:
        generator = machine.made(Sequence, node, "generator", definition)
        assert isinstance(generator, Sequence)
        generator.element = join(generator.element or NOTHING, *inner.yielded)
        return Value(frozenset({generator}))
    return join(*inner.returned) if inner.returned else NOTHING


def _in_frame(machine: Machine, frame: Frame, body: cst.BaseExpression) -> Value:
    outer, machine.frame = machine.frame, frame
    value = expressions.evaluate(machine, body)
    machine.frame = outer
    return value


def _running(machine: Machine, definition: cst.CSTNode) -> bool:
    return any(here.frame.node is definition for here in machine.here.up())


def _without_gradients(machine: Machine, definition: cst.FunctionDef) -> bool:
    return any(
        not expressions.gradient_mode(machine.values.get(decorator.decorator, NOTHING), True)
        or tree.dotted(decorator.decorator) in ("torch.no_grad", "torch.inference_mode")
        for decorator in definition.decorators
    )


def _bind_parameters(
    machine: Machine,
    frame: Frame,
    params: cst.Parameters,
    arguments: Arguments,
    receiver: Obj | None,
    node: cst.CSTNode,
) -> None:
    positional = list(arguments.positional)
    if receiver is not None:
        positional.insert(0, Value(frozenset({receiver})))
    names = [*params.posonly_params, *params.params]
    expanded = {**arguments.expanded(), **arguments.keywords}
    for place, parameter in enumerate([*names, *params.kwonly_params]):
        name = parameter.name.value
        if place < len(positional) and place < len(names):
            frame.env[name] = positional[place]
        elif name in expanded:
            frame.env[name] = expanded.pop(name)
        elif arguments.star is not None and place < len(names):
            frame.env[name] = _starred(arguments.star, place - len(positional))
        elif parameter.default is not None:
            frame.env[name] = machine.values.get(parameter.default, NOTHING)
        else:
            frame.env[name] = NOTHING
    if isinstance(params.star_arg, cst.Param):
        rest = machine.made(Sequence, node, "rest", params)
        assert isinstance(rest, Sequence)
        extra = positional[len(names) :]
        rest.element = join(
            rest.element or NOTHING, *extra, *([targets.any_item(arguments.star)] if arguments.star else [])
        )
        rest.items = tuple(extra) if arguments.star is None else None
        frame.env[params.star_arg.name.value] = Value(frozenset({rest}))
    if isinstance(params.star_kwarg, cst.Param):
        table = machine.made(Mapping, node, "keywords", params)
        assert isinstance(table, Mapping)
        known = {parameter.name.value for parameter in (*names, *params.kwonly_params)}
        for key, value in expanded.items():
            if key not in known:
                table.items[key] = value
        frame.env[params.star_kwarg.name.value] = Value(frozenset({table}))


def _starred(star: Value, position: int) -> Value:
    for obj in star.objs:
        if isinstance(obj, Sequence) and obj.items is not None and 0 <= position < len(obj.items):
            return obj.items[position]
    return targets.any_item(star)


def _super(machine: Machine, node: cst.Call, name: str) -> Value:
    """`super().method(...)`: the method of the nearest local base; a library's base does nothing that is followed."""
    arguments = _arguments(machine, node)
    function = machine.frame.function
    definition = function.node if function else None
    if function is None or function.owner is None or not isinstance(definition, cst.FunctionDef):
        return NOTHING
    first = definition.params.params[0].name.value if definition.params.params else ""
    for receiver in machine.frame.env.get(first, NOTHING).objs:
        for ancestor in list(function.owner.ancestors())[1:]:
            found = ancestor.attributes.get(name)
            for one in found.objs if found else ():
                if isinstance(one, Function):
                    return invoke(machine, one, arguments, node, receiver)
    return NOTHING


def call_back(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> None:
    """A local function given to a library may be called by it, with arguments that are not known."""
    for value in arguments.all():
        for obj in value.objs:
            if isinstance(obj, (Function, Bound)):
                call_object(machine, obj, no_arguments(), node)


def update_mapping(obj: Mapping, other: Value) -> None:
    for one in other.objs:
        if isinstance(one, Mapping):
            for key, value in one.items.items():
                obj.items[key] = join(obj.items.get(key, NOTHING), value)
            if one.rest is not None:
                obj.rest = join(obj.rest or NOTHING, one.rest)
