"""Optimizers of tensors that the script has made itself, which are of no module: what they begin with is sent to all
ranks, and their gradients are averaged by a line.
"""

from __future__ import annotations

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.answers import answered_once
from distify_codemods.decisions.base import Broadcast
from distify_codemods.decisions.doubts import may_train
from distify_codemods.facts import Facts, Optimizer, dealt_by
from distify_codemods.libraries import torch_nn, torch_optim
from distify_codemods.objects import External, Mapping, Sequence
from distify_codemods.origins import Zero
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value


@answered_once
def of_tensors(facts: Facts) -> list[Optimizer]:
    return [one for one in facts.optimizers if _trains_tensors(facts, one) and _statement(facts, one) is not None]


def broadcasts(facts: Facts) -> list[Broadcast]:
    """Behind the lines that make them."""
    found = ((one, _statement(facts, one)) for one in of_tensors(facts))
    return [
        Broadcast(place[0], one.made.module, place[1], True, (), False, by_optimizer=True)
        for one, place in found if place is not None
    ]  # fmt: skip


def _statement(facts: Facts, optimizer: Optimizer) -> tuple[str, cst.CSTNode] | None:
    """The name that it is given, and where, before training's loops."""
    made = optimizer.made
    assign = made.module.parents.get(made.node)
    target = assign.targets[0].target if isinstance(assign, cst.Assign) and len(assign.targets) == 1 else None
    turns = {node for backward in facts.backwards for node in backward.turns}
    if not isinstance(target, cst.Name) or not made.turns.isdisjoint(turns):
        return None
    return target.value, made.module.statement(made.node)


def _trains_tensors(facts: Facts, optimizer: Optimizer) -> bool:
    """Whether it is seen to be given tensors, and nothing else, that are the same whatever the batches are."""
    seen = optimizer.models or optimizer.unknown or optimizer.not_models or optimizer.wholes
    if seen or not isinstance(optimizer.obj, External) or not torch_optim.is_optimizer(optimizer.obj.name):
        return False
    given = optimizer.made.arguments.get("params", 0) or NOTHING
    return _are_tensors(given) and not may_train(facts, optimizer)


def _are_tensors(given: Value) -> bool:
    lists = [obj for obj in given.objs if isinstance(obj, Sequence)]
    parts = [part for one in lists for part in one.parts()]
    return bool(parts) and len(lists) == len(given.objs) and not given.open and all(map(_is_a_tensor_or_a_group, parts))


def _is_a_tensor_or_a_group(part: Value) -> bool:
    """Also `{"params": [weight], "lr": 0.1}`"""
    groups = [obj.items.get("params", NOTHING) for obj in part.objs if isinstance(obj, Mapping)]
    if not groups or len(groups) < len(part.objs):
        return _is_a_tensor(part)
    return not part.open and all(_are_tensors(one) or _is_a_tensor(one) for one in groups)


def _is_a_tensor(part: Value) -> bool:
    made = part is not NOTHING and part != NOTHING and not part.open and all(map(_is_one, part.objs))
    return made and part.scale is Scale.CONST and not dealt_by(part.sources)


def _is_one(obj: Obj) -> bool:
    return isinstance(obj, Zero) or (isinstance(obj, External) and obj.name.startswith(torch_nn.PARAMETER))
