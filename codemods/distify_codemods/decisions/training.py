"""Loaders that training draws from, and what else the same line makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from distify_codemods.allocation import Obj
from distify_codemods.answers import answered_once
from distify_codemods.decisions import alternatives, dealing, doubts, roles
from distify_codemods.decisions.base import Blocked, Dealing, Decisions, LoaderDecision, Sharding
from distify_codemods.events import Kind
from distify_codemods.facts import Facts, Loader, loaders_iterated
from distify_codemods.libraries import python

WHY = "its batches reach a backward pass"


def decide_training(decisions: Decisions) -> None:
    training = decisions.facts.training_loaders
    for node, loaders in by_call(decisions.facts).items():
        mine = [loader for loader in loaders if loader.obj in training]
        if not mine or any(decisions.facts.left_alone(loader.obj) for loader in mine):
            continue
        problem = _mixed(decisions.facts, mine)
        if problem is not None:
            decisions.blocked += [problem] if problem not in decisions.blocked else []
            continue
        try:
            dealt = dealing.dealing(mine)
        except dealing.Impossible as reason:
            decisions.blocked.append(Blocked("DATA01", mine[0].made.module, node, reason.why, reason.fix))
            continue
        if dealt is Dealing.EXAMPLES:
            one = LoaderDecision(node, mine[0].made.module, Sharding.TRAINING, tuple(mine), WHY, dealt)
            decisions.loaders += (one,)
            continue
        others = [loader for loader in loaders if loader.obj not in training and _is_used(decisions.facts, loader)]
        if others:
            _decide_apart(decisions, node, mine, others, dealt)
        else:
            returned = any(dealing.partial(loader) for loader in mine)
            one = LoaderDecision(node, mine[0].made.module, Sharding.TRAINING, tuple(mine), WHY, dealt)
            decisions.loaders += (replace(one, returned=returned),)


def by_call(facts: Facts) -> dict[cst.Call, list[Loader]]:
    found: dict[cst.Call, list[Loader]] = {}
    for loader in facts.loaders:
        found.setdefault(loader.call, []).append(loader)
    return found


def _is_used(facts: Facts, loader: Loader) -> bool:
    """Whether its batches are taken: by a loop, a comprehension, or something of a library that is given it."""
    return any(loader.obj in loop.loaders for loop in facts.loops) or loader.obj in _taken(facts)


@answered_once
def _taken(facts: Facts) -> set[Obj]:
    over = [event.value for event in facts.of_kind(Kind.LOOP)]
    calls = [event for event in facts.of_kind(Kind.CALL) if event.name not in python.ASK_HOW_MANY]
    over += [value for event in calls if not event.name.startswith("local.") for value in event.arguments.all()]
    return {one for value in over for one in loaders_iterated(value)}


# ---- one line, two kinds of loaders


def _decide_apart(
    decisions: Decisions, node: cst.Call, mine: list[Loader], others: list[Loader], dealt: Dealing
) -> None:
    """One line makes loaders for training and others: told apart by a name, or where they are returned."""
    facts, module = decisions.facts, mine[0].made.module
    kinds = {decisions.sharding_of(loader.obj) for loader in others}
    otherwise = kinds.pop() if len(kinds) == 1 else Sharding.GATHERED
    decisions.loaders = tuple(each for each in decisions.loaders if each.node is not node)
    if otherwise is not Sharding.GATHERED:
        when = roles.condition([*((one.made, True) for one in mine), *((one.made, False) for one in others)])
        if when is not None:
            both = (tuple(mine), WHY, dealt, when, tuple(others), otherwise)
            decisions.loaders += (LoaderDecision(node, module, Sharding.TRAINING, *both),)
            return
        calls = {loader: _returning_call(facts, loader, others) for loader in mine}
        calls |= {loader: _returning_call(facts, loader, mine) for loader in others}
        if None not in calls.values():
            for call in dict.fromkeys(calls.values()):
                returned = tuple(loader for loader in calls if calls[loader] is call)
                sharding = Sharding.TRAINING if returned[0] in mine else otherwise
                assert call is not None
                place = facts.module_of(call)
                decisions.loaders += (LoaderDecision(call, place, sharding, returned, WHY, dealt, returned=True),)
            return
    decisions.blocked.append(
        Blocked(
            "DATA01",
            module,
            node,
            "this line makes the training loader and another one, which must not be sharded alike",
            "make the two loaders in two lines",
        )
    )


def _returning_call(facts: Facts, loader: Loader, others: Sequence[Loader]) -> cst.Call | None:
    """The outermost call, of those that lead to the loader alone, that returns it."""
    chains = [(*other.obj.context, other.call) for other in others]
    chain = (*loader.obj.context, loader.call)
    for depth in range(1, len(chain)):
        step, value = chain[depth - 1], facts.value(chain[depth - 1])
        alone = all(other[:depth] != chain[:depth] for other in chains)
        strangers = [obj for obj in value.objs if obj is not loader.obj and obj.site is not loader.call]
        if alone and isinstance(step, cst.Call) and loader.obj in value.objs and not strangers:
            mixed = any(other.obj in value.objs for other in others)
            return None if mixed else step
    return None


# ---- what cannot be sharded


def _mixed(facts: Facts, loaders: list[Loader]) -> Blocked | None:
    """A loop over one loader or another, of which the user has not said on which it trains."""
    objs, told = {loader.obj for loader in loaders}, facts.settled.train_loaders.keys()
    for loop in facts.training_loops:
        drawn = [loader.obj for loader in facts.loaders if loader.obj in loop.loaders]
        mixed = loop.alternates and objs & set(loop.loaders) and not told & set(loop.trained)
        if mixed and not alternatives.one_of(facts, drawn) and not doubts.trains_on_each(facts, loop):
            return doubts.mixed_loaders(facts, loop)
    return None
