"""Calls: local functions are followed, classes instantiated, libraries asked (see `library`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

import libcst as cst

from distify_codemods.allocation import Obj, Ref
from distify_codemods.events import Kind
from distify_codemods.inside import contained, core
from distify_codemods.interpreter import (
    classes,
    collated,
    commands,
    cuts,
    dropping,
    forms,
    graph,
    library,
    methods,
    optimizers,
    pooling,
    reductions,
    rows,
    settings,
    whole,
)
from distify_codemods.libraries import torch_nn
from distify_codemods.objects import (
    Arguments,
    Bound,
    Class,
    External,
    Function,
    Instance,
    Method,
    Partial,
    Sequence,
    Setting,
    Wrapped,
)
from distify_codemods.ordered import Ordered
from distify_codemods.parameters import may_be_a_module
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.values import NOTHING, Value, join

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine


def evaluate_call(machine: Machine, node: cst.Call) -> Value:
    callee = _without_forward(machine, node, machine.evaluate(node.func))
    arguments = _arguments(machine, node)
    if not callee.objs:
        return forms.by_chance(library.unknown_call(machine, callee, arguments, node))
    return call(machine, callee, arguments, node)


def _without_forward(machine: Machine, node: cst.Call, callee: Value) -> Value:
    """`net.forward(x)` is `net(x)`; `super().forward(x)` is what a library's layer is called with."""
    if not isinstance(node.func, cst.Attribute) or node.func.attr.value != "forward":
        return callee
    nets: list[Obj] = []
    for obj in callee.objs:
        if isinstance(obj, Bound) and _is_a_module(obj.receiver):
            nets.append(obj.receiver)
        elif isinstance(obj, Method) and obj.receiver is not None:
            nets += [
                _of_its_base(machine, one)
                for one in obj.receiver.objs if isinstance(one, (Instance, External, Wrapped))
            ]  # fmt: skip
    return callee.of(nets) if nets else callee


def _of_its_base(machine: Machine, obj: Instance | External | Wrapped) -> Obj:
    """Of an object whose class has a `forward` of its own, a method of that name is the base's."""
    own = isinstance(obj, Instance) and obj.of is not None and obj.of.member("forward") is not None
    return (classes.inherited_layer(machine, obj) if own and isinstance(obj, Instance) else None) or obj


def _is_a_module(obj: Obj | None) -> TypeGuard[Instance]:
    """Also one whose base nobody has seen."""
    return isinstance(obj, Instance) and obj.of is not None and may_be_a_module(obj)


def _arguments(machine: Machine, node: cst.Call) -> Arguments:
    found = Arguments()
    for argument in node.args:
        value = machine.evaluate(argument.value)
        if argument.star == "*":
            items = _known_items(value) if found.star is None else None
            if items is not None:
                found.positional += items
            else:
                found.star = value if found.star is None else join(found.star, value)
        elif argument.star == "**":
            found.double_star = value if found.double_star is None else join(found.double_star, value)
        elif argument.keyword is not None:
            found.keywords[argument.keyword.value] = value
        else:
            found.positional.append(value)
    return found


def _known_items(value: Value) -> tuple[Value, ...] | None:
    only = value.single()
    return only.items if isinstance(only, Sequence) and not value.open else None


def call(machine: Machine, callee: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    objs = [obj for obj in callee.objs if len(callee.objs) == 1 or _is_meant(machine, obj, arguments)]
    if len(objs) == 1:
        return call_object(machine, objs[0], arguments, node)
    found = []
    outer, machine.choosing = machine.choosing, (*machine.choosing, machine.here)
    for obj in objs:
        with pooling.perhaps(machine):
            found.append(call_object(machine, obj, arguments, node))
    machine.choosing = outer
    return join(*found)


def _is_meant(machine: Machine, obj: Obj, arguments: Arguments) -> bool:
    """Of several things that may be called here, only those that take these arguments can be meant.

    What would call itself by a name that nobody knows adds nothing to what the others do.
    """
    function = obj
    if isinstance(obj, Class):
        function = (obj.member("__init__") or NOTHING).single() or obj
    if not isinstance(function, Function) or function.node is None:
        return True
    if any(here.frame.node is function.node for here in machine.here.up()):
        return False
    if arguments.star is not None or arguments.double_star is not None:
        return True
    params = function.node.params
    names = [param.name.value for param in (*params.posonly_params, *params.params) if param.default is None]
    missing = names[1:] if isinstance(obj, Class) else names
    missing = [name for name in missing[len(arguments.positional) :] if name not in arguments.keywords]
    return not missing


def call_object(machine: Machine, obj: Obj, arguments: Arguments, node: cst.CSTNode) -> Value:
    if (machine.commands or isinstance(obj, Method)) and commands.called(machine, obj, arguments, node):
        return NOTHING
    if isinstance(obj, Function):
        return machine.invoke(obj, arguments, node)
    if isinstance(obj, Bound) and obj.function is not None and obj.receiver is not None:
        optimizers.record_step(machine, obj.function, obj.receiver, arguments, node)
        if _is_a_module(obj.receiver) and isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            given = {"receiver": Value(Ordered([obj.receiver])), "arguments": arguments}
            machine.event(Kind.OWN, node, name=node.func.attr.value, **given)
        result = machine.invoke(obj.function, arguments, node, obj.receiver)
        return methods.of_a_module(machine, obj.function, obj.receiver, result, node)
    if isinstance(obj, Class):
        return classes.instantiate(machine, obj, arguments, node)
    if isinstance(obj, Partial) and obj.function is not None and obj.arguments is not None:
        return call(machine, obj.function, _combined(obj.arguments, arguments), node)
    if isinstance(obj, Ref):
        return pooling.taken(machine, library.call_reference(machine, obj.name, arguments, node), arguments)
    if isinstance(obj, Method):
        return pooling.taken(machine, methods.call(machine, obj, arguments, node), arguments)
    if isinstance(obj, Setting):
        return methods.call(machine, _method_of_setting(machine, obj, node), arguments, node)
    if isinstance(obj, (Instance, External, Wrapped)):
        return _forward(machine, obj, arguments, node)
    return NOTHING


def _method_of_setting(machine: Machine, obj: Setting, node: cst.CSTNode) -> Method:
    """`args.folder.mkdir`: an attribute of a setting, until it is called."""
    whole, _, name = obj.name.rpartition(".")
    receiver = Value(settings.named(machine, obj.site, whole).alone)
    place = node.func.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else None
    method = machine.made(Method, node, obj, receiver=receiver, name=name, receiver_node=place)
    return method


def _combined(first: Arguments, more: Arguments) -> Arguments:
    return Arguments(
        [*first.positional, *more.positional],
        {**first.keywords, **more.keywords},
        more.star or first.star,
        more.double_star or first.double_star,
    )


def _forward(machine: Machine, obj: Instance | External | Wrapped, arguments: Arguments, node: cst.CSTNode) -> Value:
    """An object called like a function: a model, a loss, a callable of any kind."""
    place = _place_of(machine, obj, node)
    machine.event(Kind.FORWARD, node, receiver=Value(obj.alone), receiver_node=place, arguments=arguments)
    inner = core(obj)
    result = _run_forward(machine, inner, arguments, node)
    if machine.cutting is not None and inner in machine.optimized:
        result = cuts.marked(machine, result, node, Ordered([forms.OUTPUT]))
    if inner in machine.optimized:
        result = whole.through_a_model(machine, result, arguments, node)
    return graph.through(machine, inner, arguments, result, node) if machine.tracing and machine.grad else result


def _place_of(machine: Machine, obj: Obj, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The expression of what is called: the function of a call, or an argument of one that calls it."""
    if not isinstance(node, cst.Call):
        return None
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "forward":
        return node.func.value
    given = [argument.value for argument in node.args if obj in machine.values.get(argument.value, NOTHING).objs]
    return given[0] if given and obj not in machine.values.get(node.func, NOTHING).objs else node.func


def _run_forward(
    machine: Machine, inner: Obj, arguments: Arguments, node: cst.CSTNode, beside: Instance | None = None
) -> Value:
    """`beside`: whose attributes hold what was put into a library's container later."""
    if isinstance(inner, External):
        result = forms.applied(inner, library.call_external_object(machine, inner, arguments, node))
        result = dropping.applied(machine, inner, result, node)
        own = _own_parts(inner, beside)
        return _in_turn(machine, inner, own, arguments, node, result) if own else result
    if not isinstance(inner, Instance):
        return NOTHING
    for name in ("__call__", "forward"):
        method = machine.attribute(inner, name)
        if method.objs and method is not inner.attributes.get(classes.ANY):  # which may hold itself
            machine.inside_models += name == "forward"
            result = call(machine, method, arguments, node)
            machine.inside_models -= name == "forward"
            return _per_sample(result, arguments) if name == "forward" else result
    layer = classes.inherited_layer(machine, inner)
    if layer is not None:
        return _run_forward(machine, layer, arguments, node, inner)
    return forms.by_chance(library.unknown_call(machine, NOTHING, arguments, node))


def _own_parts(container: External, beside: Instance | None) -> list[Instance]:
    """The script's own modules in an `nn.Sequential`, also those that were put into it later."""
    if container.name != torch_nn.SEQUENTIAL or container.arguments is None:
        return []
    values = [*container.arguments.all(), *container.attributes.values()]
    values += beside.attributes.values() if beside is not None else ()
    parts = {core(one) for value in values for one in contained(value)}
    return sorted((one for one in parts if isinstance(one, Instance)), key=lambda one: one.number)


def _in_turn(
    machine: Machine,
    container: External,
    parts: list[Instance],
    arguments: Arguments,
    node: cst.CSTNode,
    result: Value,
) -> Value:
    """`result`, or what its parts make of it: each is given what the one before it returned."""
    value = join(*arguments.all())
    for part in parts:
        value = _run_forward(machine, part, Arguments([value]), node)
    scale = Scale.COUPLED if value.scale is Scale.COUPLED else result.scale
    one_row = value.one_row and rows.keeps_rows(container)
    return replace(result, scale=scale, sources=result.sources | value.sources, one_row=one_row)


def _per_sample(result: Value, arguments: Arguments) -> Value:
    """A module that maps samples to something that cannot be followed is taken to map each sample by itself."""
    scales = {value.scale for value in arguments.all()}
    if result.scale in (Scale.UNKNOWN, Scale.CONST) and scales & PER_SAMPLE:
        own = reductions.unmarked(result).sources
        sources = collated.besides(own, own.union(*(value.sources for value in arguments.all())))
        along = Scale.TURNED if scales & PER_SAMPLE == {Scale.TURNED} else Scale.SAMPLES
        return Value(result.objs, along, sources, one_row=result.one_row)
    return result
