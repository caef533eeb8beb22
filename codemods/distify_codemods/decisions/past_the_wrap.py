"""Gradients that DistributedDataParallel would not average, seen in a run with all models wrapped."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import CallChain, Const, Obj, Ref
from distify_codemods.decisions.base import Unwrapped
from distify_codemods.decisions.several import loops_around
from distify_codemods.decisions.touching import parts_of
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, dealt_by, wrapped
from distify_codemods.inside import contained, core, root
from distify_codemods.libraries import python, torch_nn, torch_optim
from distify_codemods.objects import External, Instance, Parameters
from distify_codemods.parameters import has_none, has_parameters_for_sure, may_have_parameters
from distify_codemods.values import NOTHING, Value

#: Attributes of a module that read or set nothing that a wrap would hide.
TRANSPARENT = frozenset(
    "train eval forward parameters zero_grad requires_grad_ to cuda cpu float double half bfloat16 training".split()
)


def training_forwards(facts: Facts, model: Obj) -> list[Event]:
    return [
        event
        for event in facts.of_kind(Kind.FORWARD)
        if event.grad and any(core(obj) is model for obj in event.receiver.objs) and facts.in_training(event)
    ]


def past_the_wrap(facts: Facts) -> Iterator[Unwrapped]:
    """The models for which a wrap is not right, each with the place where that shows."""
    yield from _parts_called(facts)
    yield from _changed_later(facts)
    yield from _moved(facts)
    yield from _without_parameters(facts)
    for event in facts.of_kind(Kind.CALL):
        if event.name.startswith(torch_optim.WITHOUT_BACKWARD) and facts.in_training(event):
            yield from _all(facts, event, f"gradients are taken by `{event.name}`, which it does not see")
    for event in facts.backwards:
        given = event.arguments.get("create_graph")
        if given is not None and given.constant() is not False:
            yield from _all(facts, event, "it does not support a double backward pass")
    for event in facts.of_kind(Kind.STORE):
        added = isinstance(event.module.parents.get(event.node), cst.AugAssign)  # to what has been averaged
        if event.name == "grad" and not added and not event.value.is_none and facts.in_training(event):
            yield from _all(facts, event, "a gradient is set by hand")


def _without_parameters(facts: Facts) -> Iterator[Unwrapped]:
    for model in facts.models:
        forward = next(iter(training_forwards(facts, model)), None)
        if forward is not None and not has_parameters_for_sure(model):
            why = "it may be without parameters, and then is refused there"
            yield Unwrapped(model, forward.module, forward.node, why)


def _all(facts: Facts, event: Event, why: str) -> Iterator[Unwrapped]:
    return (Unwrapped(model, event.module, event.node, why) for model in facts.models)


def _parts_called(facts: Facts) -> Iterator[Unwrapped]:
    """Training through anything but the model's own forward."""
    calls: dict[tuple[cst.CSTNode, CallChain], Event] = {}
    for event in facts.of_kind(Kind.METHOD, Kind.FORWARD, Kind.CALL):
        if not event.grad or not facts.in_training(event):
            continue
        node = event.node
        if isinstance(node, cst.Call) and isinstance(node.func, (cst.Attribute, cst.Subscript)):
            yield from _past_the_forward(facts, event, node, node.func)
        if event.kind is Kind.FORWARD:
            calls[node, event.here.frame.context] = event
    for event in facts.of_kind(Kind.LOOP):
        if event.grad and facts.in_training(event):
            for one in wrapped(event.value):
                yield Unwrapped(core(one), event.module, event.node, "the parts of the model are called one by one")
    parts = {part: model for model in facts.models for part in parts_of(model)[1:] if not has_none(part)}
    for event in calls.values():
        chain = event.here.frame.context
        steps = [(step, CallChain(chain[:depth])) for depth, step in enumerate(chain) if isinstance(step, cst.CSTNode)]
        around = {core(obj) for step in steps if step in calls for obj in calls[step].receiver.objs}
        for obj in event.receiver.objs:
            model = parts.get(core(obj))
            if model is not None and core(obj) not in facts.models and model not in around:
                why = "a part of the model is called without the model's own forward"
                yield Unwrapped(model, event.module, event.node, why)


def _past_the_forward(
    facts: Facts, event: Event, node: cst.Call, function: cst.Attribute | cst.Subscript
) -> Iterator[Unwrapped]:
    name = f".{function.attr.value}" if isinstance(function, cst.Attribute) else "[...]"
    if name[1:] in TRANSPARENT:
        return
    for one in wrapped(facts.value(function.value)):
        if _trains_nothing(core(one), name[1:]):
            continue
        if event.kind is Kind.FORWARD or dealt_by(facts.value(node).sources):
            why = f"it is trained through `{name}(...)`, and only gradients of its forward would be averaged"
            yield Unwrapped(core(one), event.module, event.node, why)


def _trains_nothing(model: Obj, name: str) -> bool:
    """`model.loss_fn(model(x), y)`: of a part without parameters, no gradient is missed."""
    parts = model.attributes.get(name, NOTHING).objs if isinstance(model, Instance) else ()
    return bool(parts) and all(has_none(core(part)) for part in parts)


def _changed_later(facts: Facts) -> Iterator[Unwrapped]:
    """What is done to a model after its wrap, the wrap does not know of."""
    for event in facts.of_kind(Kind.STORE, Kind.METHOD):
        if event.name.removesuffix("_") == "requires_grad":
            held = [obj.of for obj in event.receiver.objs if isinstance(obj, Parameters)]
            whose = {core(obj) for obj in held if obj is not None}
            during, taken = in_the_course_of_training(facts, event), _taken_from(event)
            for model in (one for one in facts.models if not _is_in_the_making(one, event)):
                mine = not {core(root(obj)) for obj in event.receiver.objs}.isdisjoint(parts_of(model))
                parameters = None in held or not whose.isdisjoint(parts_of(model))
                may_be = parameters or (during and _may_be_of_a_librarys_part(event, model))
                later = may_be and _is_trained_later(facts, model, event)
                if during and (later or (mine and _is_after_the_wrap(facts, model, event, event.receiver_node))):
                    yield Unwrapped(model, event.module, event.node, "parameters are frozen or thawed during training")
                elif later and _is_after_the_wrap(facts, model, event, taken):
                    yield Unwrapped(model, event.module, event.node, "parameters are frozen or thawed behind its wrap")
    for event, holder, models in parts_that_are_kept(facts):
        for model in models:
            if _is_after_the_wrap(facts, model, event, holder):
                yield Unwrapped(model, event.module, event.node, "a part of it is replaced during training")


def _is_in_the_making(model: Obj, event: Event) -> bool:
    """Whether it happens in the `__init__` of the model, or of a part of it: that is wrapped later, in each turn."""
    for frame in dict.fromkeys(here.frame for here in event.here.up()):
        maker = frame.node if isinstance(frame.node, cst.FunctionDef) and frame.node.name.value == "__init__" else None
        first = maker.params.params[:1] if maker is not None else ()
        own = (obj for one in first for obj in frame.env.get(one.name.value, NOTHING).objs)
        if not {core(one) for one in own}.isdisjoint(parts_of(model)):
            return True
    return False


def _taken_from(event: Event) -> cst.BaseExpression | None:
    """Of what something is set: `model.head.weight`; of `p` in `for p in net.parameters()`, what it goes through."""
    node = event.receiver_node
    for bound in event.module.flow(node).reaching(node) if isinstance(node, cst.Name) else ():
        holder = event.module.parents.get(bound)
        while isinstance(holder, (cst.Element, cst.Tuple)):
            holder = event.module.parents.get(holder)
        if isinstance(holder, (cst.For, cst.CompFor)):
            return holder.iter
    return node


def _may_be_of_a_librarys_part(event: Event, model: Obj) -> bool:
    """`for block in model.encoder.h[-2:]: ...`, of a model of a library, of whose parts nothing is known."""
    unknown = event.kind is Kind.STORE and not event.receiver.objs and not dealt_by(event.receiver.sources)
    return unknown and any(
        isinstance(one, External) and not is_module(one) and may_have_parameters(one) for one in parts_of(model)
    )


def _is_trained_later(facts: Facts, model: Obj, event: Event) -> bool:
    found = list(training_forwards(facts, model))
    return not found or any(event.before(one) or not event.turns.isdisjoint(one.turns) for one in found)


def _moved(facts: Facts) -> Iterator[Unwrapped]:
    """`torch.save(model.cpu().state_dict(), path)`: a module is moved or cast in place, and its hooks are lost."""
    for event in facts.of_kind(Kind.METHOD):
        if not _moves_away(event) or not in_the_course_of_training(facts, event):
            continue
        moved = {core(root(obj)) for obj in event.receiver.objs}
        for model in facts.models:
            if model in moved and not _is_made_for_it(facts, model, event):
                yield Unwrapped(model, event.module, event.node, "it is moved or cast during training")


def _is_made_for_it(facts: Facts, model: Obj, event: Event) -> bool:
    """Whether each turn that does something to a model, before it trains it, has made it."""
    begun = next(iter(training_forwards(facts, model)), None)
    steps = [step for step in (*model.context, model.site) if isinstance(step, cst.CSTNode)]
    made = {loop for step in steps for loop in loops_around(facts.module_of(step), step)}
    return begun is not None and event.before(begun) and event.turns <= made


def _moves_away(event: Event) -> bool:
    if event.name != "to":
        return event.name in torch_nn.MOVING
    given = [event.arguments.get("device", 0), event.arguments.get("dtype")]
    objs = [one.single() for one in given if one is not None]
    cast = any(isinstance(one, Ref) and one.name.startswith("torch.") for one in objs)
    return cast or any(isinstance(one, Const) and one.value == "cpu" for one in objs)


def _is_after_the_wrap(facts: Facts, model: Obj, event: Event, holder: cst.BaseExpression | None) -> bool:
    """Whether a part of a model is reached through the wrap, or when the model has been trained before."""
    begun = next(iter([*training_forwards(facts, model), *facts.training_turns]), None)
    through = any(wrapped(facts.value(one)) for one in tree.inwards(holder))
    if begun is None:
        return through
    made = facts.run.machine.made_at.get(model)
    with_it = (begun.turns & event.turns) - ({one.node for one in made.loops} if made is not None else set())
    return through or bool(with_it) or (begun.before(event) and begun.turns.isdisjoint(event.turns))


def in_the_course_of_training(facts: Facts, event: Event) -> bool:
    """Between the first step and the last, or in a turn of a loop that trains, of whatever depth."""
    if not facts.training_loops:
        return False
    first = facts.training_loops[0].event
    turns = first.turns | {first.node}
    between = first.before(event) and event.number < max(one.number for one in facts.backwards)
    return between or any(here.node in turns for here in event.here.up())


#: Methods by which a module gets another one, or a parameter.
_KEEPING = frozenset("add_module append extend insert register_module register_parameter set_submodule".split())


def parts_that_are_kept(facts: Facts) -> Iterator[tuple[Event, cst.BaseExpression, list[Obj]]]:
    """`model.body.last = nn.Linear(8, 8)` in the course of training: with what keeps it, and the models of which."""
    owners: dict[Obj, list[Obj]] = {}
    for model in facts.models:
        for part in parts_of(model):
            owners.setdefault(part, []).append(model)
    for event in facts.of_kind(Kind.STORE, Kind.METHOD, Kind.CALL) if facts.training_loops else ():
        holder, receiver, given = _kept(event)
        new = (core(obj) for value in given for obj in contained(value))
        models = dict.fromkeys(model for obj in receiver.objs for model in owners.get(core(root(obj)), ()))
        if holder is None or not models or not any(is_module(obj) and may_have_parameters(obj) for obj in new):
            continue
        if in_the_course_of_training(facts, event) and not event.in_a_maker and not facts.in_a_model(event):
            yield event, holder, list(models)


def _kept(event: Event) -> tuple[cst.BaseExpression | None, Value, list[Value]]:
    """What is given something to keep, and what that is."""
    given = event.arguments.positional
    if event.kind is Kind.STORE:
        return event.receiver_node, event.receiver, [event.value]
    if event.kind is Kind.METHOD and event.name in _KEEPING:
        return event.receiver_node, event.receiver, event.arguments.all()
    sets = event.name in (python.SETS_ATTRIBUTE, torch_nn.PARAMETRIZES)
    if sets and len(given) > 2 and isinstance(event.node, cst.Call):
        return event.node.args[0].value, given[0], given[2:]
    return None, NOTHING, []


def is_module(obj: Obj) -> bool:
    return isinstance(obj, Instance) or (isinstance(obj, External) and obj.name.startswith(torch_nn.OWN))
