"""Loaders that training draws from, and what else the same line makes."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from distify_codemods import arguments
from distify_codemods.decisions import roles
from distify_codemods.decisions.base import Blocked, Decisions, LoaderDecision, Sharding
from distify_codemods.facts import Facts, Loader
from distify_codemods.values import Arguments, Class, Instance, Value

WHY = "its batches reach a backward pass"


def decide_training(decisions: Decisions) -> None:
    training = decisions.facts.training_loaders
    for node, loaders in by_call(decisions.facts).items():
        mine = [loader for loader in loaders if loader.obj in training]
        if not mine:
            continue
        problem = _mixed(decisions.facts, mine) or next((one for one in map(_why_not, mine) if one), None)
        if problem is not None:
            decisions.blocked.append(problem)
            continue
        others = [loader for loader in loaders if loader.obj not in training and _is_used(decisions.facts, loader)]
        if others:
            _decide_apart(decisions, node, mine, others)
        else:
            decisions.loaders += (LoaderDecision(node, mine[0].made.module, Sharding.TRAINING, tuple(mine), WHY),)


def by_call(facts: Facts) -> dict[cst.Call, list[Loader]]:
    found: dict[cst.Call, list[Loader]] = {}
    for loader in facts.loaders:
        found.setdefault(loader.call, []).append(loader)
    return found


def _is_used(facts: Facts, loader: Loader) -> bool:
    return any(loader.obj in loop.loaders for loop in facts.loops)


# ---- one line, two kinds of loaders


def _decide_apart(decisions: Decisions, node: cst.Call, mine: list[Loader], others: list[Loader]) -> None:
    """One line makes loaders for training and others: told apart by a name, or where they are returned."""
    facts, module = decisions.facts, mine[0].made.module
    kinds = {decisions.sharding_of(loader.obj) for loader in others}
    otherwise = kinds.pop() if len(kinds) == 1 else Sharding.GATHERED
    decisions.loaders = tuple(each for each in decisions.loaders if each.node is not node)
    if otherwise is not Sharding.GATHERED:
        when = roles.condition([*((one.made, True) for one in mine), *((one.made, False) for one in others)])
        if when is not None:
            both = (tuple(mine), WHY, when, tuple(others), otherwise)
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
                decisions.loaders += (LoaderDecision(call, place, sharding, returned, WHY, returned=True),)
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
        step, value = chain[depth - 1], facts.value(chain[depth - 1])  # type: ignore[arg-type]
        alone = all(other[:depth] != chain[:depth] for other in chains)
        strangers = [obj for obj in value.objs if obj is not loader.obj and obj.site is not loader.call]
        if alone and isinstance(step, cst.Call) and loader.obj in value.objs and not strangers:
            mixed = any(other.obj in value.objs for other in others)
            return None if mixed else step
    return None


# ---- what cannot be sharded


def _mixed(facts: Facts, loaders: list[Loader]) -> Blocked | None:
    """A loop over several loaders, one or the other at a time (not zipped), that trains on some of their batches."""
    objs = {loader.obj for loader in loaders}
    for loop in facts.training_loops:
        if loop.alternates and objs & set(loop.loaders):
            return Blocked(
                "DATA01",
                loop.module,
                loop.node,
                "this loop runs over more than one loader, and trains on some of their batches only: they must "
                "not be sharded alike",
                "train and evaluate in two loops",
            )
    return None


def _why_not(loader: Loader) -> Blocked | None:
    problem = unshardable(loader)
    return Blocked("DATA01", loader.made.module, loader.call, *problem) if problem else None


def given(options: Arguments, name: str) -> Value | None:
    """An argument that is given and not None."""
    position = arguments.PARAMETERS["DataLoader"].index(name)
    value = options.get(name, position)
    if value is None or any(getattr(obj, "value", 0) is None for obj in value.objs):
        return None
    return value


def unshardable(loader: Loader) -> tuple[str, str] | None:
    """Why a training loader cannot take a DistributedSampler, and what to do."""
    options = loader.arguments
    if options.star is not None:
        return "its arguments are given as `*args`", "name its arguments"
    for name in ("sampler", "batch_sampler"):
        if given(options, name) is not None:
            return (
                f"it has a {name} of its own, whose order would have to be dealt out over the ranks",
                f"deal the {name} out by hand: each rank takes every world-size-th index, from one common seed",
            )
    if "batch_size" in options.keywords and given(options, "batch_size") is None:
        return "it loads samples one by one (batch_size=None)", "shard the dataset itself by rank and worker"
    dataset = options.get("dataset", 0)
    for obj in dataset.objs if dataset else ():
        cls = obj.of if isinstance(obj, Instance) else None
        if isinstance(cls, Class) and cls.derives_from("torch.utils.data.IterableDataset"):
            return (
                "its dataset is an IterableDataset",
                "let each rank and worker iterate over its own share in `__iter__`",
            )
    return None
