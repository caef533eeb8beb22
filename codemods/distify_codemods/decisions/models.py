"""Where each trained model is wrapped: as late as it can be, and tried out before it is believed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from distify_codemods import tree
from distify_codemods.decisions.agreement import averages
from distify_codemods.decisions.base import Averaging, Blocked, Reduction, Wrap, path
from distify_codemods.decisions.evaluation import training_sums
from distify_codemods.decisions.touching import Touching, parts_of
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts, infer
from distify_codemods.interpreter import Hooks, Machine, run
from distify_codemods.interpreter.machine import Frame
from distify_codemods.values import (
    External,
    Instance,
    Obj,
    Share,
    Value,
    Wrapped,
    core,
)

BATCHNORMS = tuple(
    f"torch.nn.{name}" for name in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d")
)


def decide_wraps(facts: Facts) -> tuple[tuple[Wrap, ...], Facts, list[Blocked]]:
    """The wraps and the facts of the program with them in place; or what stands in the way."""
    blocked: list[Blocked] = []
    open_ones: dict[Obj, Iterator[Wrap]] = {}
    normalised = _with_batchnorm(facts)
    touching = Touching(facts)
    for model in facts.models:
        forwards = _training_forwards(facts, model)
        if forwards:
            open_ones[model] = _candidates(
                facts, model, forwards[0], touching.before(model, forwards[0]), model in normalised
            )
        else:
            blocked.append(_no_forward(facts, model))
    chosen: dict[Obj, Wrap] = {}
    seen = facts
    while True:
        trial = {**chosen, **{model: wrap for model, more in open_ones.items() if (wrap := next(more, None))}}
        blocked += [_no_place(facts, _training_forwards(facts, model)[0]) for model in open_ones if model not in trial]
        wraps = _merged(list(trial.values()))
        seen = _try_out(facts, wraps)
        chosen = {model: wrap for model, wrap in trial.items() if _all_wrapped(seen, model)}
        open_ones = {model: more for model, more in open_ones.items() if model in trial and model not in chosen}
        if not open_ones:
            return wraps, _with_sums(seen, wraps), blocked


def _with_sums(facts: Facts, wraps: tuple[Wrap, ...]) -> Facts:
    """The facts once figures of training are summed over the ranks: what depends on them no longer differs."""
    sums = [one for loop in facts.training_loops if (one := training_sums(facts, loop)) is not None]
    return _try_out(facts, wraps, sums) if sums else facts


def agreed(facts: Facts, wraps: tuple[Wrap, ...]) -> tuple[Facts, tuple[Averaging, ...]]:
    """The facts once figures that decisions hang on are averaged; what depends on those decisions is alike, too."""
    found: dict[cst.CSTNode, Averaging] = {}
    while True:
        more: dict[cst.CSTNode, Averaging] = {one.node: one for one in averages(facts) if one.node not in found}
        if not more:
            return facts, tuple(found.values())
        found.update(more)
        sums = [one for loop in facts.training_loops if (one := training_sums(facts, loop)) is not None]
        facts = _try_out(facts, wraps, sums, frozenset(found))


def _summed(machine: Machine, reduction: Reduction) -> None:
    made = {loader.site for loader in reduction.loop.loaders}
    for name in reduction.names:
        value = machine.lookup(name)
        kept = frozenset(
            one
            for one in value.sources
            if not isinstance(one, Share) and (not isinstance(one, External) or one.site not in made)
        )
        machine.bind(name, Value(value.objs, value.scale, kept, value.mask, value.open, value.deep))


def _training_forwards(facts: Facts, model: Obj) -> list[Event]:
    loops = facts.training_loops
    return [
        event
        for event in facts.of_kind(Kind.FORWARD)
        if event.grad
        and any(core(obj) is model for obj in event.receiver.objs)
        and any(event.inside(loop.event) for loop in loops)
    ]


def _no_forward(facts: Facts, model: Obj) -> Blocked:
    optimizer = next((one for one in facts.optimizers if model in one.models), None)
    if model in facts.settled.models and optimizer is None and model.module is not None and model.site is not None:
        message = f"you name `{facts.names.of(model)}`, which is never called in a training loop, as a model"
        return Blocked("MODEL01", model.module, model.site, message, "name the model that the training loop calls")
    trained = optimizer.made if optimizer is not None else facts.by_hand[model]
    return Blocked(
        "MODEL01",
        trained.module,
        trained.node,
        "the model that is trained here is never called in a training loop, so DistributedDataParallel "
        "would not see its gradients",
        "call the model itself (its forward) in the training loop, or average the gradients by hand after backward()",
    )


def _no_place(facts: Facts, forward: Event) -> Blocked:
    return Blocked(
        "MODEL01",
        forward.module,
        forward.node,
        "this trained model is reached through more than one variable, and no single place wraps them all",
        "wrap it by hand right after it is built: `model = DistributedDataParallel(model)`",
    )


# ---- candidates


def _candidates(facts: Facts, model: Obj, forward: Event, touching: list[Event], sync: bool) -> Iterator[Wrap]:
    """Variables first, from the outermost frame inwards; then attributes that the model is stored in."""
    frames = _frames_around_training(facts, forward)
    for frame in frames:
        for name in _names(facts, frame, model):
            wrap = _after_last(model, frame, name, forward, touching, sync)
            if wrap is not None:
                yield wrap
    for event in touching:
        if event.kind is Kind.STORE and isinstance(event.node, cst.Attribute) and _holds(event.value, model):
            statement = event.module.statement(event.node)
            yield Wrap(
                tree.code_of(event.node),
                event.module,
                statement,
                True,
                (model,),
                sync,
                "its forward pass is called in the training loop",
                event.node,
            )


def _frames_around_training(facts: Facts, forward: Event) -> list[Frame]:
    """The activations that lead to a training forward, outermost first, up to the one that loops over batches."""
    loops = {loop.node for loop in facts.training_loops}
    frames: list[Frame] = []
    for here in forward.here.up():
        if here.node in loops and here.arm == "body":
            frames = [here.frame]
        elif here.frame not in frames:
            frames.insert(0, here.frame)
    return frames


def _names(facts: Facts, frame: Frame, model: Obj) -> list[str]:
    """The variables of an activation that hold the model: at its end, or, in one turn of a loop, at a loop inside."""
    own = _self_of(frame)
    tables = [frame.env, frame.bound, *(loop.names for loop in facts.of_kind(Kind.LOOP) if loop.here.frame is frame)]
    found = [name for table in tables for name, value in table.items() if _holds(value, model)]
    return [name for name in dict.fromkeys(found) if name.isidentifier() and name != own]


def _self_of(frame: Frame) -> str:
    """`self`: rebinding it would wrap nothing."""
    function = frame.function
    if function is None or function.owner is None or not isinstance(function.node, cst.FunctionDef):
        return ""
    params = function.node.params.params
    return params[0].name.value if params else ""


def _holds(value: Value, model: Obj) -> bool:
    return any(core(obj) is model for obj in value.objs)


def _after_last(model: Obj, frame: Frame, name: str, forward: Event, touching: list[Event], sync: bool) -> Wrap | None:
    training = path(forward, frame)
    if not training:
        return None
    paths = [steps for steps in (path(event, frame) for event in touching) if steps]
    made = next((steps for steps in paths), [])
    depth = 0
    while depth < len(made) and depth < len(training) and made[depth] is training[depth]:
        depth += 1
    if depth >= len(training):
        return None
    before = [
        steps[depth] for steps in paths
        if len(steps) > depth and steps[:depth] == training[:depth] and steps[depth] is not training[depth]
    ]  # fmt: skip
    statement = before[-1] if before else training[depth]
    why = "all that is done to it before the first training step is done by here"
    return Wrap(name, frame.module, statement, bool(before), (model,), sync, why)


def _with_batchnorm(facts: Facts) -> set[Obj]:
    """Models that may have BatchNorm: layers of the script are seen, what a library builds may hold them."""
    parts = {model: parts_of(model) for model in facts.models}
    found = {
        model
        for model, own in parts.items()
        if any(isinstance(part, External) and not part.name.startswith(("torch.", "builtins.")) for part in own)
        or any(isinstance(part, Instance) and part.of and part.of.derives_from(*BATCHNORMS) for part in own)
    }
    members = {model: set(own) for model, own in parts.items()}
    for event in facts.calls(*BATCHNORMS):
        made, context = event.value.single(), set(event.here.frame.context)
        owners = {model for model in facts.models if model.site in context or made in members[model]}
        found |= owners or set(facts.models)
    return found


# ---- trying out


def _try_out(
    facts: Facts,
    wraps: tuple[Wrap, ...],
    sums: Sequence[Reduction] = (),
    averaged: frozenset[cst.CSTNode] = frozenset(),
) -> Facts:
    hooks: Hooks = {}
    for reduction in sums:
        table = hooks.setdefault((reduction.loop.node, True), [])
        table.append(lambda machine, reduction=reduction: _summed(machine, reduction))  # type: ignore[misc]
    for wrap in wraps:
        table = hooks.setdefault((wrap.statement, wrap.after), [])
        table.append(lambda machine, wrap=wrap: _wrap(machine, wrap))  # type: ignore[misc]
    return infer(facts.program, run(facts.program, hooks, True, facts.run.cutting, averaged, facts.run.reducing))


def _wrap(machine: Machine, wrap: Wrap) -> None:
    if wrap.attribute is None:
        value = machine.lookup(wrap.target)
        machine.bind(wrap.target, _wrapped(machine, value, wrap))
        return
    from distify_codemods.interpreter.expressions import evaluate

    for obj in evaluate(machine, wrap.attribute.value).objs:
        known = obj.attributes.get(wrap.attribute.attr.value)
        if known is not None:
            obj.attributes[wrap.attribute.attr.value] = _wrapped(machine, known, wrap)


def _wrapped(machine: Machine, value: Value, wrap: Wrap) -> Value:
    objs = {
        machine.made(Wrapped, wrap.statement, core(obj), "ours", inner=core(obj), ours=True)
        if isinstance(obj, (Instance, External, Wrapped)) else obj
        for obj in value.objs
    }  # fmt: skip
    return Value(frozenset(objs), value.scale, value.sources)


def _all_wrapped(facts: Facts, model: Obj) -> bool:
    """Whether each training forward of the model (the same site in this run) goes through the wrap."""
    same = [one for one in facts.models if one.site is model.site and one.context == model.context]
    forwards = [event for one in same for event in _training_forwards(facts, one)]
    return bool(forwards) and all(
        isinstance(obj, Wrapped) and obj.ours
        for event in forwards
        for obj in event.receiver.objs
        if core(obj).site is model.site
    )


def _merged(wraps: list[Wrap]) -> tuple[Wrap, ...]:
    """Models that share a variable are wrapped by one statement, behind the last thing that is done to any of them."""
    found: dict[tuple[str, cst.CSTNode], Wrap] = {}
    for wrap in wraps:
        scope = next(node for node in wrap.module.enclosing(wrap.statement) if isinstance(node, _SCOPES))
        key = (wrap.target, scope)
        known = found.get(key)
        if known is not None:
            last = max(known, wrap, key=lambda one: one.module.place(one.statement).line)
            models, sync = (*known.models, *wrap.models), known.sync_batchnorm or wrap.sync_batchnorm
            wrap = replace(last, models=models, sync_batchnorm=sync)
        found[key] = wrap
    return tuple(found.values())


_SCOPES = (cst.FunctionDef, cst.Module)
