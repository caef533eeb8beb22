"""From facts to decisions. Loaders, and the loops over them, that share code are decided together."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions import (
    batch_size,
    cuts,
    doubts,
    evaluation,
    losses,
    models,
    roles,
    sharing,
    training,
    views,
)
from distify_codemods.decisions.base import Decisions, Reduction
from distify_codemods.events import Kind
from distify_codemods.facts import Facts
from distify_codemods.values import Wrapped


def decide(facts: Facts) -> Decisions:
    """What happens to each model, loader and evaluation loop of a program that trains."""
    facts, slicings, uncut = cuts.decide_cuts(facts)
    facts, loss_reductions = losses.decide_losses(facts)
    wraps, wrapped_facts, blocked = models.decide_wraps(facts)
    blocked += doubts.doubts(wrapped_facts)  # before figures are averaged: what hangs on them is no flag
    wrapped_facts, averages = models.agreed(wrapped_facts, wraps)
    decisions = Decisions(wrapped_facts, wraps, averages=averages, slicings=slicings, blocked=[*uncut, *blocked])
    decisions.loss_reductions = loss_reductions
    sharing.decide_evaluations(decisions)
    training.decide_training(decisions)
    views.decide_other_uses(decisions)
    batch_size.decide_divisions(decisions)
    decisions.training_sums = tuple(_training_sums(decisions))
    decisions.prefixed = _prefixed(facts)
    decisions.reached_through = frozenset(
        event.node
        for event in facts.of_kind(Kind.ATTRIBUTE)
        if event.name == "module" and any(isinstance(obj, Wrapped) for obj in event.receiver.objs)
    )
    return decisions


def _training_sums(decisions: Decisions) -> list[Reduction]:
    """Figures of training. Where the same loop also evaluates, only what is not summed for that."""
    facts, found = decisions.facts, []
    for loop in facts.training_loops:
        reduction = evaluation.training_sums(facts, loop)
        if reduction is None:
            continue
        summed = {name for one in decisions.reductions if one.loop.node is loop.node for name in one.names}
        names = tuple(name for name in reduction.names if name not in summed)
        when = roles.training_only(facts, loop)
        if when is None and names:
            decisions.blocked.append(roles.two_purposes(loop))
        elif names:
            found.append(Reduction(loop, names, when or "", doubts.shared_loader(facts, loop) or ""))
    return found


def _prefixed(facts: Facts) -> dict[cst.CSTNode, bool]:
    """Where the original saves or loads the state of a model in nn.DataParallel: its keys begin with `module.`"""
    found: dict[cst.CSTNode, bool] = {}
    for event in facts.of_kind(Kind.METHOD):
        if event.name in ("state_dict", "load_state_dict"):
            parallel = [isinstance(obj, Wrapped) for obj in event.receiver.objs]
            if any(parallel):
                found[event.node] = all(parallel) and found.get(event.node, True)
            elif event.node in found:
                found[event.node] = False
    return found
