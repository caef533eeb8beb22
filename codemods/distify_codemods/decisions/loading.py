"""Loaders whose batches ranks may load in shares, where forward passes alone are shared.

Every rank has to come by with each batch, and each sample has to follow from its index and from random numbers: whoever
loads it, it is the same.
"""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.base import SharedLoading
from distify_codemods.decisions.samples import Samples
from distify_codemods.events import Event, Here, Kind
from distify_codemods.facts import Facts, Loader
from distify_codemods.interpreter import Machine
from distify_codemods.interpreter.frames import Frame
from distify_codemods.libraries import torch_data
from distify_codemods.reads import Marks


def decide_loading(facts: Facts, as_written: Facts) -> tuple[SharedLoading, ...]:
    """`as_written`: of a run whose values are looked at no more, and may go on to what loaders call."""
    found = {loader.made.node: loader for loader in facts.loaders if _is_torchs(loader)}
    nodes = [node for node, loader in found.items() if _is_met(facts, loader)]
    if not nodes or not facts.run.exact:
        return ()
    made: dict[cst.CSTNode, list[Event]] = {node: [] for node in nodes}
    for event in as_written.of_kind(Kind.CALL):
        if event.node in made:
            made[event.node].append(event)
    machine = as_written.run.machine
    unbound = machine.unbound.copy()
    plain = [node for node in nodes if made[node] and all(_is_plain(machine, one) for one in made[node])]
    machine.unbound = Marks(unbound)  # as it was: a refusal tells of these
    return tuple(SharedLoading(found[node].made.module, found[node].call) for node in plain)


def _is_torchs(loader: Loader) -> bool:
    return loader.obj.name == loader.made.name == torch_data.LOADER and isinstance(loader.made.node, cst.Call)


def _is_met(facts: Facts, loader: Loader) -> bool:
    """Whether its batches are taken where all ranks come together, as in loops of training, and nowhere else."""
    same = {one.obj for one in facts.loaders if one.made.node is loader.made.node}
    met = {draw.node for loop in facts.loops if loop.trains or loop.forwards for draw in loop.draws}
    taken = [event for event in facts.of_kind(Kind.DRAW) if event.value.objs & same]
    if not any(event.node in met for event in taken) or any(map(facts.left_alone, same)):
        return False
    return all(event.node in met or _is_for_all(facts, event) for event in taken)


def _is_for_all(facts: Facts, draw: Event) -> bool:
    """`images, labels = next(iter(loader))` where nothing is around it that is not around training: all come there.

    Where a batch is given to a call, rank 0 may be the one that makes the call: what only shows or writes is its own.
    """
    holders = draw.module.enclosing(draw.node)
    line = next((number for number, one in enumerate(holders) if isinstance(one, cst.BaseStatement)), 0)
    if any(isinstance(one, cst.Arg) for one in holders[:line]) or not isinstance(holders[line - 1], cst.Assign):
        return False
    around = {_key(here) for here in draw.here.up() if here.node is not holders[line]}
    return any(around <= {_key(here) for here in loop.event.here.up()} for loop in facts.training_loops)


def _key(here: Here) -> tuple[cst.CSTNode, str, Frame]:
    return here.node, here.arm, here.frame


def _is_plain(machine: Machine, made: Event) -> bool:
    samples, given = Samples(machine, made), made.arguments
    dataset = given.get("dataset", 0)
    if dataset is None or given.star is not None or given.double_star is not None:
        return False
    collate = given.get("collate_fn", 6)
    return samples.follow_from_indices(dataset) and samples.take_time and samples.is_plain_function(collate)
