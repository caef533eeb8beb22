"""Why each thing was taken for what it is: the chain of what was seen, as data. Computed where it is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Obj
from distify_codemods.decisions.base import Decisions
from distify_codemods.events import Event, Kind
from distify_codemods.facts import BatchLoop, Facts, Loader, Optimizer, drawn_from
from distify_codemods.inside import contained, core
from distify_codemods.libraries import checkpoints
from distify_codemods.naming import brief
from distify_codemods.objects import Parameters
from distify_codemods.origins import Share
from distify_codemods.results import Belief, Reason


def beliefs(facts: Facts, decisions: Decisions | None = None) -> tuple[Belief, ...]:
    """Models, optimizers, loaders, loops, backward passes, steps and saves, each kind in the order of the script."""
    found = [
        *(_model(facts, model, decisions) for model in facts.models),
        *(_optimizer(facts, optimizer) for optimizer in facts.optimizers),
        *(_loader(facts, loader, decisions) for loader in facts.loaders),
        *(_loop(facts, loop, decisions) for loop in facts.loops),
        *(_backward(facts, event) for event in facts.backwards),
        *(_step(facts, event) for event in facts.steps),
        *(_save(facts, event) for event in facts.calls(checkpoints.SAVE)),
    ]
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _at(text: str, event: Event, node: cst.CSTNode | None = None) -> Reason:
    """A reason whose text names its place: `{}` in it."""
    place = event.module.place(node or event.node)
    return Reason(text.format(place), place)


def _quoted(node: cst.CSTNode) -> str:
    return f"`{brief(node)}`".replace("{", "{{").replace("}", "}}")  # the text is a pattern for the place


def _call(event: Event) -> str:
    return _quoted(event.node.func if isinstance(event.node, cst.Call) else event.node)


# ---- models and optimizers


def _model(facts: Facts, model: Obj, decisions: Decisions | None) -> Belief | None:
    place = facts.names.place(model)
    if place is None:
        return None
    reasons = [_given(one, model) for one in facts.optimizers if model in one.models]
    if model in facts.by_hand:
        reasons.append(_at("the script updates its parameters by itself at {}", facts.by_hand[model]))
    who = facts.settled.models.get(model)
    if who is not None:
        reasons.append(Reason(f"you say so (`{who}`)", place))
    reasons += _training_calls(facts, model)
    for wrap in decisions.wraps if decisions else ():
        if any(core(one).site is model.site and core(one).context == model.context for one in wrap.models):
            where = wrap.module.place(wrap.statement)
            side = "after" if wrap.after else "before"
            reasons.append(Reason(f"it is wrapped {side} {where}, because {wrap.why}", where))
    for shared in decisions.shared if decisions else ():
        if shared.model.site is model.site and shared.model.context == model.context:
            where = shared.module.place(shared.statement)
            reasons.append(Reason(f"ranks share its forward passes from {where} on", where))
    return Belief("model", model_name(facts, model), "a trained model", place, tuple(reasons))


def model_name(facts: Facts, model: Obj) -> str:
    """The expression whose `.parameters()` an optimizer was given; else what holds the model."""
    for optimizer in facts.optimizers:
        for obj in _parameters(optimizer):
            call = obj.site
            if obj.of is not None and core(obj.of) is model and isinstance(call, cst.Call):
                owner = call.func.value if isinstance(call.func, cst.Attribute) else None
                own = owner is not None and tree.is_plain(owner) and {core(one) for one in facts.value(owner).objs}
                if owner is not None and own == {model} and not _is_self(obj, owner):
                    return tree.code_of(owner)
    return facts.names.of(model)


def _parameters(optimizer: Optimizer) -> Iterator[Parameters]:
    for value in optimizer.made.arguments.all():
        yield from (obj for obj in contained(value) if isinstance(obj, Parameters))


def _is_self(obj: Obj, owner: cst.BaseExpression) -> bool:
    """`self.parameters()`: inside the model's own class, it has no name."""
    around = obj.module.enclosing(owner) if obj.module is not None and owner in obj.module.parents else []
    function = next((node for node in around if isinstance(node, cst.FunctionDef)), None)
    params = function.params.params if function is not None else ()
    return bool(params) and isinstance(owner, cst.Name) and params[0].name.value == owner.value


def _given(optimizer: Optimizer, model: Obj) -> Reason:
    own = any(obj.of is not None and core(obj.of) is model for obj in _parameters(optimizer))
    what = "its parameters are" if own else "its parameters, or those of a part of it, are"
    return _at(f"{what} given to {_call(optimizer.made)} at {{}}", optimizer.made)


def _training_calls(facts: Facts, model: Obj) -> list[Reason]:
    for loop in facts.training_loops:
        for event in loop.forwards:
            if event.grad and any(core(obj) is model for obj in event.receiver.objs):
                return [_at(f"a training loop calls it at {{}} ({_quoted(event.node)})", event)]
    return []


def _optimizer(facts: Facts, optimizer: Optimizer) -> Belief:
    models = ", ".join(f"`{model_name(facts, model)}`" for model in facts.names.in_order(optimizer.models))
    given = f"{_call(optimizer.made)} at {{}} is given the parameters of {models or 'no model that is seen'}"
    reasons = [_at(given, optimizer.made)]
    steps = [event for event in facts.steps if optimizer.obj in _stepped(event)]
    reasons += [_at(f"{_quoted(event.node)} at {{}} is a step of it", event) for event in steps[:1]]
    place = optimizer.made.module.place(optimizer.made.node)
    return Belief("optimizer", facts.names.of(optimizer.obj), "an optimizer", place, tuple(reasons))


def _stepped(event: Event) -> set[Obj]:
    return {obj for value in (event.receiver, *event.arguments.positional) for obj in value.objs}


# ---- loaders and loops


def _loader(facts: Facts, loader: Loader, decisions: Decisions | None) -> Belief:
    place = loader.made.module.place(loader.made.node)
    reasons = []
    who = facts.settled.train_loaders.get(loader.obj)
    if who is not None:
        reasons.append(Reason(f"you say so (`{who}`)", place))
    mine = [loop for loop in facts.loops if loader.obj in loop.loaders]
    training = [loop for loop in mine if loader.obj in loop.trained]
    if training or who is not None:
        reasons += _reaching(facts, loader, training)
        what = "a training loader"
    elif any(loop.forwards for loop in mine):
        what = "an evaluation loader"
        loop = next(loop for loop in mine if loop.forwards)
        seen = loop.forwards[0]
        over = loop.module.place(loop.node)
        reasons.append(
            _at(f"its batches ({over}) go through {_quoted(seen.node)} at {{}} and reach no backward pass", seen)
        )
        reasons += _sharing(loader, decisions)
    else:
        what = "a loader that no trained model sees"
        reasons += [_at("its loop at {} calls no trained model", loop.event) for loop in mine[:1]]
        reasons = reasons or [Reason(f"nothing is seen to go through its batches after {place}", place)]
    return Belief("loader", facts.names.of(loader.obj), what, place, tuple(reasons))


def _reaching(facts: Facts, loader: Loader, loops: list[BatchLoop]) -> list[Reason]:
    for loop in loops:
        for event in facts.backwards:
            if loader.obj in event.receiver.sources and event.inside(loop.event):
                over = loop.module.place(loop.node)
                return [_at(f"its batches ({over}) reach {_quoted(event.node)} at {{}}", event)]
    return []


def _sharing(loader: Loader, decisions: Decisions | None) -> list[Reason]:
    for one in decisions.loaders if decisions else ():
        if any(other.obj is loader.obj for other in one.loaders):
            place = one.module.place(one.node)
            how = one.sharding.value.removeprefix("evaluation: ")
            return [Reason(f"decided: {how}, because {one.why}", place)]
    return []


def _loop(facts: Facts, loop: BatchLoop, decisions: Decisions | None) -> Belief:
    place = loop.module.place(loop.node)
    reasons = [_batches(facts, loop)]
    if loop.trains:
        what = "a training loop"
        passes = [
            event for event in facts.backwards
            if event.inside(loop.event) and (drawn_from(event.receiver.sources) & set(loop.loaders) or loop.shares)
        ]  # fmt: skip
        reasons += [_at(f"{_quoted(event.node)} at {{}} is of its batches", event) for event in passes[:1]]
        if loop.shares and decisions is not None:
            shared = [(one.why, one.module.place(one.node)) for one in decisions.slicings]
            reasons += [Reason(f"decided at {where}: {why}", where) for why, where in shared]
    elif loop.forwards:
        what = "an evaluation loop"
        reasons.append(
            _at(f"{_quoted(loop.forwards[0].node)} at {{}} is inside, and no backward pass", loop.forwards[0])
        )
    else:
        what = "a loop that no trained model has a part in"
    return Belief("loop", _header(loop.node), what, place, tuple(reasons))


def _batches(facts: Facts, loop: BatchLoop) -> Reason:
    """Where a loop has its batches from."""
    if loop.shares:
        return Reason("its batches are cut by hand, from no DataLoader", loop.module.place(loop.node))
    over = " or ".join(f"`{facts.names.of(one)}`" for one in facts.names.in_order(loop.loaders))
    drawn = next((draw for draw in loop.draws if draw.node is not loop.node), None)
    if drawn is not None:
        return _at(f"it takes batches of {over} at {{}} ({_quoted(drawn.node)})", drawn)
    return Reason(f"it runs over {over}", loop.module.place(loop.node))


def _header(node: cst.For | cst.While) -> str:
    if isinstance(node, cst.While):
        return f"while {brief(node.test)}"
    return " ".join(f"for {tree.code_of(node.target)} in {tree.code_of(node.iter)}".split())


# ---- what happens in loops


def _backward(facts: Facts, event: Event) -> Belief:
    place = event.module.place(event.node)
    loaders = [one.obj for one in facts.loaders if one.obj in event.receiver.sources]
    over = ", ".join(dict.fromkeys(f"`{facts.names.of(one)}`" for one in loaders))
    what = f"depends on batches of {over}" if over else "depends on no batches of a DataLoader that is seen"
    if not over and (cuts := _cuts(facts, event)):
        over, what = cuts, f"depends on batches that are cut by hand ({cuts})"
    name = _quoted(event.receiver_node).format() if event.receiver_node is not None else "what it is called on"
    reasons = [Reason(f"{name} {what}", place)]
    if over:
        reasons.append(Reason(f"it is {event.receiver.scale.value}", place))
    return Belief("backward", brief(event.node), "a backward pass", place, tuple(reasons))


def _cuts(facts: Facts, event: Event) -> str:
    """The places where the batches of a backward pass are cut."""
    cuts = {one.of for one in event.receiver.sources if isinstance(one, Share) and one.of is not None}
    places = [facts.names.place(cut) for cut in facts.names.in_order(cuts)]
    return ", ".join(dict.fromkeys(str(place) for place in places if place is not None))


def _step(facts: Facts, event: Event) -> Belief:
    place = event.module.place(event.node)
    mine = [one for one in facts.optimizers if one.obj in _stepped(event)]
    names = " or ".join(f"`{facts.names.of(one.obj)}`" for one in mine)
    reasons = [_at(f"`{facts.names.of(one.obj)}` is the optimizer made at {{}}", one.made) for one in mine]
    return Belief("step", brief(event.node), f"a step of {names}", place, tuple(reasons))


def _save(facts: Facts, event: Event) -> Belief:
    place = event.module.place(event.node)
    states = {one.value.single(): one.receiver for one in facts.of_kind(Kind.METHOD) if one.name == "state_dict"}
    written = [states[obj] for value in event.arguments.all() for obj in contained(value) if obj in states]
    held = sorted({facts.names.of(core(obj)) for receiver in written for obj in receiver.objs})
    reasons = [Reason(f"{_call(event).format()} writes a file", place)]
    if held:
        reasons.append(Reason(f"it holds the state of {', '.join(f'`{name}`' for name in held)}", place))
    return Belief("save", brief(event.node), "a save", place, tuple(reasons))
