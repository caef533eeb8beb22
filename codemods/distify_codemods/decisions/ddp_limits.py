"""What DistributedDataParallel must be told of a model, or cannot do for it: seen in a run that traces gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.decisions.backward_passes import Session, sessions
from distify_codemods.decisions.base import Unwrapped
from distify_codemods.decisions.unused import Unused, left_over, own_parameters, unused_parts, whole
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core
from distify_codemods.interpreter.graph import read_straight
from distify_codemods.libraries import torch_optim


def beyond(facts: Facts) -> Iterator[Unwrapped]:
    """The models whose gradients it would average wrongly, or stop at, whatever it is told."""
    for model in facts.models:
        found = sessions(facts, model)
        problem = _problem(facts, model, found)
        if problem is not None:
            yield Unwrapped(model, problem[0].module, problem[0].node, problem[1])


def _problem(facts: Facts, model: Obj, found: Sequence[Session]) -> tuple[Event, str] | None:
    for session in found:
        if not session.forwards:
            return session.backward, "several backward passes follow one forward pass, of which it averages the first"
    if not facts.run.exact:
        return None
    unused = unused_parts(facts, model, found)
    several = next((session for session in found if len(session.forwards) > 1), None)
    if several is not None and any(one.sometimes for one in unused):
        return several.backward, "parts of it are used in only one of several forward passes before a backward pass"
    left = left_over(facts, model, found)
    if left is not None:
        return left, "not all that its forward pass computes goes into the loss"
    forwards = {forward.node for session in found for forward in session.forwards}
    read = _read_outside(facts, model, unused, forwards)
    if read is not None:
        return read, "a part of it takes part in a step, and not in its forward pass"
    penalised = next((one.backward for one in found if unused and _straight(one.backward, model)), None)
    if penalised is not None:
        return penalised, "the loss is made of its parameters, too, and not all of them take part in its forward pass"
    again = _recomputed_twice(facts, found, unused)
    if again is not None:
        return (
            again,
            "reentrant checkpoints go back through a part of it more than once, or past parts without gradients",
        )
    return None


def _straight(backward: Event, model: Obj) -> bool:
    """`loss + sum(p.norm() for p in net.parameters())`: gradients of parameters that it took for without any."""
    owners = read_straight(backward.receiver)
    return model in owners or any(part in owners for part in whole(model))


def _read_outside(facts: Facts, model: Obj, unused: Sequence[Unused], forwards: set[cst.CSTNode]) -> Event | None:
    """`criterion(net.decoder.weight, ...)`: a part that it takes for one without gradients in this step."""
    parts = {one.part for one in unused if not one.sometimes and not one.parameter}
    own = own_parameters(facts).get(model, []) if unused else []
    within = {event.name for event in facts.of_kind(Kind.ATTRIBUTE) if own and forwards & set(event.here.frame.context)}
    for event in facts.of_kind(Kind.ATTRIBUTE) if parts or own else ():
        outside = not forwards & set(event.here.frame.context)
        trains = event.grad and outside and facts.in_training(event)
        if trains and any(core(obj) is model for obj in event.receiver.objs):
            value = model.attributes.get(event.name)
            held = {part for obj in value.objs for part in (core(obj), *whole(core(obj)))} if value is not None else ()
            if not parts.isdisjoint(held) or (event.name in own and event.name not in within):
                return event
    return None


def _recomputed_twice(facts: Facts, found: Sequence[Session], unused: list[Unused]) -> Event | None:
    """Each reentrant checkpoint is a backward pass of its own: a part may be in one of them, and none be left out."""
    for session in found:
        used: set[Obj] = set()
        for event in facts.calls(torch_optim.CHECKPOINT):
            reentrant = event.arguments.get("use_reentrant")
            if reentrant is not None and reentrant.constant() is False:
                continue
            times = sum(forward.node in event.here.frame.context for forward in session.forwards)
            parts = (event.arguments.get("function", 0) or event.value).objs
            if times > 1 or (times and (unused or used & parts)):
                return event
            used |= parts if times else set()
    return None


def leaves_unused(facts: Facts, model: Obj) -> str:
    """Why it must look for parameters without gradients after each forward pass; nothing where it need not."""
    if not facts.run.exact:
        return ""
    parts = unused_parts(facts, model, sessions(facts, model))
    if not parts:
        return ""
    part = next((one for one in parts if not one.sometimes), parts[0])
    name = facts.names.of(part.part)
    if part.parameter:
        return f"no training step is seen to use `{name}.{part.parameter}`"
    if part.foreign:
        return f"`{name}` is a library's, and a step is not seen to need all of its parameters"
    if part.last:
        return f"what the last turn of a loop makes with `{name}` goes nowhere"
    return f"`{name}` is used in some steps only" if part.sometimes else f"no training step is seen to use `{name}`"
