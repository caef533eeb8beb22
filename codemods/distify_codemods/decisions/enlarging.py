"""`--scale linear` and `--scale none` where forward passes are shared: all ranks see batches that are larger.

It is what one process would do with a batch N times as large. What else in the script goes by the batch size would
have to follow, and is left to a person.
"""

from __future__ import annotations

from collections.abc import Iterator

from distify_codemods.allocation import Const, Obj
from distify_codemods.decisions import scaling
from distify_codemods.decisions.base import Blocked, Decisions, LoaderDecision, Sharding
from distify_codemods.decisions.batch_size import sized_by
from distify_codemods.facts import Facts, Loader
from distify_codemods.objects import External, Setting

_KEEP = "or keep the global batch (--scale global)"


def decide_enlarging(decisions: Decisions) -> None:
    facts = decisions.facts
    loaders = [one for one in facts.loaders if one.obj in facts.training_loaders and not facts.left_alone(one.obj)]
    decisions.enlarged = tuple(_by_call(loaders))
    decided = Decisions(facts, loaders=decisions.enlarged)
    scaling.decide_scaling(decided)
    decisions.rates, decisions.warm_ups = decided.rates, decided.warm_ups
    decisions.blocked += [*decided.blocked, *_not_of_loaders(facts, loaders), *_sizes(decided)]


def _by_call(loaders: list[Loader]) -> Iterator[LoaderDecision]:
    for node in dict.fromkeys(one.call for one in loaders):
        made = tuple(one for one in loaders if one.call is node)
        why = "its batches are larger on several ranks"
        yield LoaderDecision(node, made[0].made.module, Sharding.TRAINING, made, why)


def _not_of_loaders(facts: Facts, loaders: list[Loader]) -> Iterator[Blocked]:
    """Training on batches that no loader makes, or of which a sampler of the script's own says how large they are."""
    known = {one.obj for one in loaders}
    for one in loaders:
        own = one.arguments.get("batch_sampler", 4)
        size = one.arguments.get("batch_size", 1)
        if (own is not None and not own.is_none) or (size is not None and size.is_none):
            yield Blocked(
                "BATCH01", one.made.module, one.made.node,
                "this loader is not told how large its batches are, so that they cannot grow",
                f"give it a batch_size, {_KEEP}",
            )  # fmt: skip
    loops = [loop for loop in facts.training_loops if loop.trained and known.issuperset(loop.trained)]
    for event in facts.backwards:
        if not any(event.inside(loop.event) for loop in loops):
            yield Blocked(
                "BATCH01", event.module, event.node,
                "this trains on batches that no DataLoader makes: they cannot grow with the number of ranks",
                f"put the data into a Dataset and loop over a DataLoader, {_KEEP}",
            )  # fmt: skip


def _sizes(decisions: Decisions) -> Iterator[Blocked]:
    """Tensors of the size that batches had."""
    given = (obj for decision in decisions.loaders for size in decision.batch_sizes for obj in size.objs)
    objs: set[Obj] = {obj for obj in given if isinstance(obj, (Const, Setting, External))}
    used = sized_by(decisions, objs) if objs else None
    if used is not None:
        yield Blocked(
            "BATCH01", used.module, used.node,
            "the batch size shapes a tensor here, and the batches of several ranks are larger",
            f"use the size of the batch itself, e.g. inputs.size(0), {_KEEP}",
        )  # fmt: skip
