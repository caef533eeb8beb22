"""From facts to decisions. Loaders, and the loops over them, that share code are decided together."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.backends import Backend
from distify_codemods.decisions import (
    accumulation,
    averaging_optimizers,
    batch_size,
    broadcasts,
    bystanders,
    contradictions,
    cuts,
    deferring,
    doubts,
    figures,
    gathering,
    gradients,
    hand_updates,
    losses,
    models,
    played,
    roles,
    scaling,
    sharing,
    tensors_alone,
    training,
    trials,
    views,
)
from distify_codemods.decisions.base import Decisions, GradientAveraging, Joining, Left, LossReduction, Reduction
from distify_codemods.decisions.own_figures import OwnFigures
from distify_codemods.decisions.prefixes import decide_prefixes
from distify_codemods.decisions.training_sums import halves, training_sums, written_names
from distify_codemods.facts import Facts


def decide(dealt: cuts.Dealt, backend: Backend) -> Decisions:
    """What happens to each model, loader and evaluation loop of a program that trains."""
    facts, slicings, uncut = dealt
    per_rank = facts.program.options.per_rank_batch  # then each rank's loss is that of one process
    facts, loss_reductions, joinings, coupled = (facts, (), (), {}) if per_rank else _losses(facts)
    averaged = models.decide_models(facts, backend)
    wraps = averaged.wraps
    games = () if uncut else [played.blocked("DATA01", *place) for place in played.for_training(facts)][:1]
    doubted = doubts.doubts(averaged.facts)  # before figures are averaged: no flags then
    blocked = [*uncut, *games, *averaged.blocked, *doubted]
    wrapped_facts, averages, left = trials.agreed(averaged.facts, wraps)
    decisions = Decisions(wrapped_facts, wraps=wraps, averages=averages, left=left, slicings=slicings, blocked=blocked)
    decisions.deferrals = tuple(
        deferring.deferrals(
            wrapped_facts, averages, lambda but: trials.put_together(averaged.facts, wraps, averages, but)
        )
    )
    alike = {one.node for deferral in decisions.deferrals for one in deferral.alike}
    decisions.averages = tuple(one for one in averages if one.node not in alike)
    decisions.loss_reductions, decisions.joinings, decisions.coupled = loss_reductions, joinings, coupled
    decisions.unwrapped = tuple(
        replace(one, model=model) for one in averaged.unwrapped for model in wrapped_facts.models
        if models.same(model, one.model)
    )  # fmt: skip
    decisions.broadcasts, nowhere = broadcasts.decide_broadcasts(wrapped_facts, decisions.unwrapped)
    decisions.broadcasts += tuple(tensors_alone.broadcasts(wrapped_facts))
    decisions.bystanders, unplaced = bystanders.decide_bystanders(wrapped_facts)
    waits: dict[Obj, tuple[GradientAveraging, ...]] = {}
    if backend.optimizers is not None:
        alone = [one.model for one in decisions.unwrapped]
        decisions.optimizers, waits = averaging_optimizers.decide_optimizers(wrapped_facts, alone)
    decisions.gradients, unreachable = gradients.decide_gradients(wrapped_facts, decisions.unwrapped, waits)
    decisions.gradient_calls, unaveraged = gradients.decide_gradient_calls(wrapped_facts)
    decisions.accumulations = accumulation.decide_accumulation(wrapped_facts, wraps)
    decisions.written, unseen = hand_updates.decide_updates(wrapped_facts)
    decisions.blocked += [*nowhere, *unreachable, *unaveraged, *unseen, *unplaced]
    sharing.decide_evaluations(decisions)
    decisions.averages = trials.without_what_is_summed(averaged.facts, wraps, decisions)
    training.decide_training(decisions)
    views.decide_other_uses(decisions)
    _drop_what_is_of_all(decisions)
    if per_rank:
        scaling.decide_scaling(decisions)
    else:
        batch_size.decide_divisions(decisions)
    decisions.training_sums = tuple(_training_sums(decisions))
    decisions.blocked += contradictions.contradictions(decisions)
    decide_prefixes(decisions, facts)
    return decisions


def _drop_what_is_of_all(decisions: Decisions) -> None:
    """Figures that an evaluation of training's data makes are of all samples: put together again, they count twice."""
    facts = decisions.facts
    kept = [one for one in decisions.averages if one.code == figures.CODE]
    whole = views.beside_training(facts) if kept or decisions.left else frozenset()
    if not whole:
        return
    seen = facts.tried(whole=whole, averaged=frozenset())
    of_all = [one for one in kept if not figures.is_of_one_rank(seen, one.node)]
    decisions.averages = tuple(one for one in decisions.averages if one not in of_all)
    decisions.left = tuple(
        one for one in decisions.left
        if figures.is_of_one_rank(seen, one.node) or not figures.is_of_one_rank(facts, one.node)
    )  # fmt: skip


def _losses(facts: Facts) -> tuple[Facts, tuple[LossReduction, ...], tuple[Joining, ...], dict[cst.CSTNode, str]]:
    """What is reduced stays where it is; what couples the samples of a batch needs them all in one place."""
    reduced, reductions = losses.decide_losses(facts)
    found, joinings, coupled = gathering.decide_gatherings(reduced)
    if coupled and reductions:  # what is gathered must not be reduced, too
        other, joinings, why = gathering.decide_gatherings(facts)
        if not why:
            return other, (), joinings, {}
        joinings = ()
    return found, reductions, joinings, coupled


def _training_sums(decisions: Decisions) -> list[Reduction]:
    """Figures of training. Where the same loop also evaluates, only what is not summed for that."""
    facts, found = decisions.facts, []
    for loop in facts.training_loops:
        reduction = training_sums(facts, loop)
        if reduction is None:
            continue
        summed = {name for one in decisions.reductions if one.loop.node is loop.node for name in one.names}
        own = [node for module, node in OwnFigures(facts, facts.training_loaders).in_place() if module is loop.module]
        own += [one.node for one in decisions.left if one.module is loop.module]
        beside = written_names(facts, loop, own) - {*reduction.names, *reduction.means}
        half = halves(facts, reduction, beside, {one.node for one in decisions.averages})
        decisions.left += (Left(loop.module, loop.node, half=True),) if half else ()
        names = tuple(name for name in reduction.names if name not in summed | half)
        when = roles.training_only(facts, loop)
        if when is None and names:
            decisions.blocked.append(roles.two_purposes(loop))
        elif names or reduction.means:
            shared = doubts.shared_loader(facts, loop) or ""
            found.append(Reduction(loop, names, when or "", shared, reduction.means))
    return found
