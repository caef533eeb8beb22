"""What an evaluation loop does beside computing with names, and how that is said."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.allocation import Const, Obj
from distify_codemods.decisions import made_anew
from distify_codemods.decisions.caught import may_be_caught
from distify_codemods.decisions.form_tests import is_of_form
from distify_codemods.decisions.stand_ins import evaluated
from distify_codemods.events import Event, Kind
from distify_codemods.facts import BatchLoop, Facts, loaders_of
from distify_codemods.inside import core
from distify_codemods.libraries import torch_optim
from distify_codemods.libraries.effects import IMPURE, PURE
from distify_codemods.naming import brief
from distify_codemods.objects import Bound, Function, Instance


def effects(facts: Facts, loop: BatchLoop) -> Iterator[Event]:
    """What the loop does beside computing with names: printing, storing, appending, leaving, unknown calls."""
    models = set(facts.models)
    calls = {event.node for event in evaluated(facts, loop)}
    for event in facts.run.events:
        if not event.inside(loop.event):
            continue
        arithmetic = event.kind in (Kind.CALL, Kind.METHOD) or is_of_form(facts, event)
        if arithmetic and calls & set(event.here.frame.context):
            continue  # the model's own
        if event.kind is Kind.STORE and _while_training(facts, models, event):
            continue  # and it is in eval mode
        if _has_an_effect(facts, event, loop, models):
            yield event


def _has_an_effect(facts: Facts, event: Event, loop: BatchLoop, models: set[Obj]) -> bool:
    if event.kind is Kind.CALL:
        known = event.name.startswith((*PURE, "local.")) and event.name not in IMPURE
        return not known and not _makes_no_difference(event)
    if event.kind is Kind.METHOD:
        own = [obj for obj in event.receiver.objs if not isinstance(obj, Const)]
        of_a_model = event.name == "zero_grad" or any(core(obj) in models for obj in own)
        puts = event.name in _PUTTING and _is_gone_with_the_turn(facts, event, loop)
        return bool(own) and not of_a_model and not _computes(event) and not puts
    if event.kind is Kind.TEST:
        return bool(loaders_of(event.value.sources))
    if event.kind is Kind.LEAVE:
        if event.name == "raise" and not may_be_caught(facts, event):
            return False  # it ends the run, on whichever rank
        return event.here.frame is loop.event.here.frame or event.name in ("exit", "raise")
    if event.kind is Kind.STORE:
        return not _is_gone_with_the_turn(facts, event, loop) and not _is_of_one_call(event)
    return event.kind is Kind.PRINT


def _is_of_one_call(event: Event) -> bool:
    """`ctx.scale = scale`, in the forward pass of a function of autograd's."""
    objs = event.receiver.objs
    classes = [obj.of if isinstance(obj, Instance) else None for obj in objs]
    return bool(objs) and all(one is not None and one.derives_from(torch_optim.FUNCTION) for one in classes)


def _is_gone_with_the_turn(facts: Facts, event: Event, loop: BatchLoop) -> bool:
    """`mask[y > 0] = 0`, `rows.append(x)` of what is made there, in the loop's body or in a function that it calls."""
    place, module = event.node, event.module
    holder = place.value if isinstance(place, cst.Subscript) else event.receiver_node
    if not isinstance(holder, cst.Name):
        return False
    called = event.here.frame is not loop.event.here.frame
    made = made_anew.bindings(facts, module, holder)
    return bool(made) and (called or all(loop.node in module.enclosing(one) for one in made))


def told(effect: Event, loop: BatchLoop) -> str:
    """What is said of such an event."""
    place = effect.module.place(effect.node)
    line = f"line {place.line}" if effect.module is loop.module else f"line {place.line} of {effect.module.path}"
    if effect.kind is Kind.METHOD and effect.name in _KEEPING:
        return f"{line} keeps something of each batch"
    if effect.kind in (Kind.CALL, Kind.METHOD):
        return f"{line} calls `{brief(effect.node)}`, which may do more than compute"
    return f"{line} {_DOES[effect.kind]}"


_DOES = {
    Kind.TEST: "decides by what a batch gives", Kind.LEAVE: "may leave the loop", Kind.PRINT: "prints for each batch",
    Kind.STORE: "sets something that outlasts the batch",
}  # fmt: skip


def _while_training(facts: Facts, models: set[Obj], event: Event) -> bool:
    """Whether it happens under `if self.training:`, of one of these models or their parts."""
    for here in event.here.up():
        if isinstance(here.node, cst.If) and here.arm == "body" and isinstance(here.node.test, cst.Attribute):
            owners = facts.value(here.node.test.value).objs
            if here.node.test.attr.value == "training" and owners and all(core(one) in models for one in owners):
                return True
    return False


def _makes_no_difference(event: Event) -> bool:
    return event.name.startswith(("tqdm.", "contextlib.")) or event.name.endswith((".no_grad", ".autocast"))


def _computes(event: Event) -> bool:
    """Methods that return something new and change nothing."""
    return event.name in _COMPUTING or all(isinstance(obj, (Bound, Function)) for obj in event.receiver.objs)


_COMPUTING = frozenset(
    "to cuda cpu float double half item numpy size dim tolist format join keys values items get copy".split()
)
#: Methods that keep what they are given in a list or a set.
_KEEPING = frozenset({"append", "extend", "insert", "add"})
#: Those that change what it holds.
_PUTTING = _KEEPING | {"pop", "update", "setdefault", "reverse"}
