"""Functions of the script: each call is followed, unless what it does is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.interpreter import (
    definitions,
    frames,
    holding,
    library,
    other_names,
    pooling,
    repeated,
    sparing,
    summaries,
)
from distify_codemods.libraries import python, torch_optim
from distify_codemods.objects import Arguments, Bound, External, Function, Mapping, Sequence, Suspended
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.frames import Frame
    from distify_codemods.interpreter.machine import Machine


def invoke(
    machine: Machine, function: Function, arguments: Arguments, node: cst.CSTNode, receiver: Obj | None = None
) -> Value:
    definition = function.node
    frame = machine.frame
    if definition is not None and _running(machine, definition):
        return NOTHING  # the calls that do not go deeper have returned all there is
    if definition is None or len(frame.context) >= frames.DEEPEST:
        return library.unknown_call(machine, NOTHING, arguments, node)
    key = summaries.key_of(machine, function, arguments, receiver)
    summary = machine.summaries.get(key)
    if summary is not None and summary.holds():
        return pooling.drawn_again(machine, summary.value)
    familiar = sparing.familiar(machine, function, arguments, receiver)
    if familiar is not None and familiar.is_known(machine, arguments):
        return familiar.again(machine, function, arguments, receiver)
    helper = summaries.helper_of(machine, function, arguments, receiver)
    value = summaries.known(machine, helper, arguments, receiver) if helper is not None else None
    if value is not None:
        return pooling.drawn_again(machine, value)
    context = frame.context.then(node)
    place = repeated.place_of(machine, key, context)
    learns = helper is not None and helper.runs < summaries.TRIALS
    before = repeated.known(machine, place, arguments) if not learns else None
    if before is not None:
        return before.again(machine)
    following = repeated.Following(machine, place, familiar is not None or helper is not None)
    value = _run(machine, function, definition, arguments, node, receiver)
    following.end(key, context, arguments, value)
    if following.events is not None and familiar is not None:
        familiar.learn(following.events, value, receiver)
    if following.events is not None and helper is not None:
        summaries.learn(helper, context, following.events, value, receiver)
    return value


def _run(
    machine: Machine,
    function: Function,
    definition: cst.FunctionDef | cst.Lambda,
    arguments: Arguments,
    node: cst.CSTNode,
    receiver: Obj | None,
) -> Value:
    if isinstance(definition, cst.FunctionDef) and _is_context_manager(machine, definition):
        return Value(_suspended(machine, function, arguments, node, receiver).alone)
    inner = _activation(machine, function, definition, arguments, node, receiver)
    if isinstance(definition, cst.Lambda):
        return _in_frame(machine, inner, definition.body)
    _run_body(machine, inner, definition)
    machine.frame.drawn |= inner.drawn
    if inner.yielded:
        generator = machine.made(Sequence, node, "generator", definition)
        generator.element = join(generator.element or NOTHING, *inner.yielded)
        generator.deals |= [loader for loader in inner.drawn if _hands_out(inner.yielded, loader)]
        generator.code = _suspended(machine, function, arguments, node, receiver)
        return Value(generator.alone)
    return join(*inner.returned) if inner.returned else NOTHING


def _suspended(
    machine: Machine, function: Function, arguments: Arguments, node: cst.CSTNode, receiver: Obj | None
) -> Suspended:
    made = machine.made(Suspended, node, function, receiver, function=function, receiver=receiver)
    made.arguments = arguments
    return made


def send(machine: Machine, generator: Sequence, value: Value, node: cst.CSTNode) -> Value:
    """`generator.send(value)`: its code is followed once more, here, where each `yield` gives it that."""
    code = generator.code
    definition = code.function.node if code is not None and code.function is not None else None
    if code is None or code.function is None or code.arguments is None or not isinstance(definition, cst.FunctionDef):
        return NOTHING
    if _running(machine, definition) or len(machine.frame.context) >= frames.DEEPEST:
        return Value(scale=Scale.UNKNOWN, sources=value.sources)
    inner = _activation(machine, code.function, definition, code.arguments, node, code.receiver)
    inner.sent = machine.tainted(value)
    _run_body(machine, inner, definition)
    machine.frame.drawn |= inner.drawn
    for one in inner.yielded:
        holding.append(machine, generator, one)
    return join(*inner.yielded) if inner.yielded else NOTHING


def run_suspended(
    machine: Machine,
    function: Function,
    arguments: Arguments,
    node: cst.CSTNode,
    receiver: Obj | None,
    at_yield: Callable[[Value], None],
) -> None:
    """Runs the code of a generator; `at_yield` is called with what it yields."""
    definition = function.node
    assert isinstance(definition, cst.FunctionDef)
    inner = _activation(machine, function, definition, arguments, node, receiver)
    inner.at_yield = at_yield
    _run_body(machine, inner, definition)


def _activation(
    machine: Machine,
    function: Function,
    definition: cst.FunctionDef | cst.Lambda,
    arguments: Arguments,
    node: cst.CSTNode,
    receiver: Obj | None,
) -> Frame:
    assert function.module is not None
    context = machine.frame.context.then(node)
    inner = frames.Frame(definition, function.module, context, function.closure, function=function)
    _bind_parameters(machine, inner, definition.params, arguments, receiver, node)
    own = [one.name.value for one in (*definition.params.posonly_params, *definition.params.params)]
    other_names.give(inner, machine.frame, own[receiver is not None :], arguments, node)
    return inner


def _run_body(machine: Machine, inner: Frame, definition: cst.FunctionDef) -> None:
    grad = machine.grad
    machine.grad = grad and not _without_gradients(machine, definition)
    falls_through = machine.run_frame(inner, definition.body.body)
    machine.grad = grad
    pooling.go_on(machine, *inner.left, *([pooling.fresh(machine)] if falls_through else []))


def _is_context_manager(machine: Machine, definition: cst.FunctionDef) -> bool:
    return bool(definition.decorators) and bool(
        definitions.decorator_names(machine, definition) & python.CONTEXT_MANAGERS
    )


def _hands_out(yielded: list[Value], loader: External) -> bool:
    """Whether a generator yields the batches of a loader, and not figures that were made from them."""
    return any(loader in value.sources and value.scale in PER_SAMPLE for value in yielded)


def _in_frame(machine: Machine, frame: Frame, body: cst.BaseExpression) -> Value:
    outer, machine.frame = machine.frame, frame
    value = machine.evaluate(body)
    machine.frame = outer
    return value


def _running(machine: Machine, definition: cst.CSTNode) -> bool:
    """Whether a function calls itself, more deeply than lists of tuples of tensors are nested."""
    frames = {id(here.frame) for here in machine.here.up() if here.frame.node is definition}
    return len(frames) > _NESTED


_NESTED = 2


def _without_gradients(machine: Machine, definition: cst.FunctionDef) -> bool:
    return any(
        not gradient_mode(machine.values.get(decorator.decorator, NOTHING), True)
        or tree.dotted(decorator.decorator) in torch_optim.WITHOUT_GRADIENTS
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
        positional.insert(0, Value(receiver.alone))
    names = [*params.posonly_params, *params.params]
    expanded, unseen = {**arguments.expanded(), **arguments.keywords}, holding.double_starred(arguments)
    for place, parameter in enumerate([*names, *params.kwonly_params]):
        name = parameter.name.value
        if place < len(positional) and place < len(names):
            frame.env[name] = positional[place]
        elif name in expanded:
            frame.env[name] = expanded.pop(name)
        elif arguments.star is not None and place < len(names):
            frame.env[name] = _starred(arguments.star, place - len(positional))
        else:
            default = machine.values.get(parameter.default, NOTHING) if parameter.default is not None else None
            given = [one for one in (default, unseen) if one is not None]
            frame.env[name] = join(*given) if given else NOTHING
    if isinstance(params.star_arg, cst.Param):
        rest = machine.made(Sequence, node, "rest", params)
        extra = positional[len(names) :]
        rest.element = join(
            rest.element or NOTHING, *extra, *([holding.any_item(arguments.star)] if arguments.star else [])
        )
        rest.items = tuple(extra) if arguments.star is None else None
        frame.env[params.star_arg.name.value] = Value(rest.alone)
    if isinstance(params.star_kwarg, cst.Param):
        table = machine.made(Mapping, node, "keywords", params)
        known = {parameter.name.value for parameter in (*names, *params.kwonly_params)}
        for key, value in expanded.items():
            if key not in known:
                table.items[key] = value
        if unseen is not None:
            table.rest = join(table.rest or NOTHING, unseen)
        frame.env[params.star_kwarg.name.value] = Value(table.alone)


def _starred(star: Value, position: int) -> Value:
    for obj in star.objs:
        if isinstance(obj, Sequence) and obj.items is not None and 0 <= position < len(obj.items):
            return obj.items[position]
    return holding.any_item(star)


def call_back(machine: Machine, arguments: Arguments, node: cst.CSTNode) -> Value:
    """A local function given to a library may be called by it, with arguments that are not known."""
    returned = NOTHING
    for value in arguments.all():
        for obj in value.objs:
            if isinstance(obj, (Function, Bound)):
                with pooling.perhaps(machine):
                    returned = join(returned, machine.call_object(obj, Arguments(), node))
            elif isinstance(obj, Suspended) and obj.function is not None and obj.arguments is not None:
                run_suspended(machine, obj.function, obj.arguments, node, obj.receiver, lambda entered: None)
    return returned


def gradient_mode(value: Value, current: bool) -> bool:
    """Whether gradients are recorded inside `with value`."""
    for obj in value.objs:
        if isinstance(obj, External):
            if obj.name in torch_optim.WITHOUT_GRADIENTS:
                return False
            if obj.name == torch_optim.WITH_GRADIENTS:
                return True
            if obj.name == torch_optim.IF_TOLD and obj.arguments is not None:
                known = (obj.arguments.get("mode", 0) or NOTHING).constant()
                return known if isinstance(known, bool) else True
    return current
