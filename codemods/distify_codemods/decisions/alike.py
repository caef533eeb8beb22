"""Random numbers for the samples of a rank's share, where all ranks draw alike.

A generator of the script's own draws the same on each rank, wherever that is. Batches that are cut by hand are drawn
alike on all ranks, and each takes its share of them; from then on only what trained models draw in their forward passes
is a rank's own. What else is drawn for the samples of a share would be the same numbers on each rank: for fewer samples
than one process draws them for.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from distify_codemods.allocation import Obj, Turn
from distify_codemods.decisions import meetings, row_counts, streams
from distify_codemods.decisions.base import Decisions, Link
from distify_codemods.decisions.marks import marks, with_evidence
from distify_codemods.decisions.own_streams import has_a_stream_of_its_own
from distify_codemods.decisions.several import around
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.inside import core, values_in
from distify_codemods.interpreter import dropping
from distify_codemods.interpreter.cuts import key_of
from distify_codemods.libraries import drawing, torch_nn
from distify_codemods.naming import brief
from distify_codemods.origins import Cut, Draw
from distify_codemods.scale import PER_SAMPLE, Scale
from distify_codemods.unfollowed import unfollowed
from distify_codemods.values import Value


def links(decisions: Decisions) -> Iterator[Link]:
    facts = with_evidence(decisions.facts)
    drawn = {mark.site for mark in marks(facts, Draw)}
    chosen = {one.node for one in streams.choices(decisions.facts)}
    yield from _in_parametrizations(facts)
    for event in facts.of_kind(Kind.CALL, Kind.METHOD, Kind.FORWARD):
        draws = event.node in drawn or _drops(event)
        if draws and facts.in_training(event) and _is_for_what_is_gathered(event) and not _is_apart(facts, event):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` draws for the samples of all ranks, which are gathered ahead of it: each rank "
                "would draw other numbers for them, and have another loss",
                "what draws for a batch before it is gathered, such as in a forward pass of the same line, is each "
                "rank's own",
            )  # fmt: skip
            continue
        if not draws or not facts.in_training(event):
            continue
        inside = _is_apart(facts, event)
        if not _is_for_a_share(facts, event):
            rows = inside and (row_counts.has_a_row_for_each_given(facts, event) or _is_of_what_is_given(facts, event))
            known = rows or event.node in chosen or _is_told(decisions, event)
            if (inside or not decisions.slicings) and not known:
                yield Link(
                    event.module, event.node,
                    f"`{brief(event.node)}` is not seen to draw for the samples of a batch: what is drawn once for all "
                    "of them, each rank would draw by itself",
                    "" if inside else "one number, or `torch.randn(5, 3)` of no batch's size, is rank 0's for all",
                )  # fmt: skip
            continue
        if has_a_stream_of_its_own(event):
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` draws for a rank's own samples from a generator that has the same seed on all "
                "ranks: the same numbers for other samples",
                "what is drawn from the script's own streams is each rank's own",
            )  # fmt: skip
        elif decisions.slicings and not inside:
            yield Link(
                event.module, event.node,
                f"`{brief(event.node)}` draws for a rank's own samples, of a batch that is cut by hand, and all ranks "
                "draw alike there: the same numbers for other samples",
                "what is drawn before the batch is cut, or in the model's forward, is dealt out with the samples, or "
                "is each rank's own",
            )  # fmt: skip


def _in_parametrizations(facts: Facts) -> Iterator[Link]:
    """What draws for weights where torch calls it, in each forward pass."""
    for call in unfollowed(facts):
        draws = drawing.draws_numbers(call.name) or call.name.removeprefix(".") in drawing.METHODS
        if draws and call.by is not None and call.by.name == torch_nn.PARAMETRIZES:
            yield Link(call.module, call.node, f"`{brief(call.node)}` draws for weights: each rank would by itself", "")


def _is_of_what_is_given(facts: Facts, event: Event) -> bool:
    """`self.drop(self.lin(x))`, of samples that are not seen for such."""
    return _drops(event) and row_counts.is_made_of_what_is_given(facts, event)


def _is_told(decisions: Decisions, event: Event) -> bool:
    """Whether all ranks draw the same; or what says how many are drawn is the size of a batch, which each rank has
    divided, or of a share in which it is not seen where its samples are.
    """
    facts = decisions.facts
    around = {event.node, *event.module.enclosing(event.node)}
    if has_a_stream_of_its_own(event) or not around.isdisjoint(facts.run.trial.averaged):
        return True
    given = [one for value in (event.receiver, *event.arguments.all(), event.value) for one in values_in(value)]
    if any(one.scale is Scale.UNKNOWN and facts.shares_of_training(one) for one in given):
        return True
    told = {key_of(obj) for one in given for obj in one.objs | one.sources if isinstance(obj, Obj)}
    return any(key_of(division.obj) in told for division in decisions.divisions)


def _drops(event: Event) -> bool:
    """`nn.Dropout()(x)`, `F.dropout(x)`: it draws for whatever it is given, and says nothing of it."""
    if not event.grad or event.kind is not Kind.FORWARD:
        return event.grad and event.kind is Kind.CALL and drawing.is_dropout(event.name)
    return any(map(dropping.drops, map(core, event.receiver.objs)))


def _is_apart(facts: Facts, event: Event) -> bool:
    """Whether it happens in the forward pass of a trained model."""
    passes = {one.node for one in facts.forwards}
    return event.node in passes or not passes.isdisjoint(event.here.frame.context)


def _is_for_a_share(facts: Facts, event: Event) -> bool:
    """Whether how many are drawn follows from a share, or draws are made for each of its samples."""
    if _is_whole(event.value):
        return False
    if any(map(_is_of_a_share, (event.receiver, *event.arguments.all()))):
        return True
    turns = {one.node for one in facts.loops_with_steps}
    for step in (*event.here.frame.context, event.node):
        loop = step.loop if isinstance(step, Turn) else step
        for outer, inner in around(facts.module_of(loop), loop):
            over = outer if isinstance(outer, cst.For) else outer.for_in if isinstance(outer, cst.BaseComp) else None
            if over is not None and inner is not over and outer not in turns and _is_of_a_share(facts.value(over.iter)):
                return True
    return False


def _is_for_what_is_gathered(event: Event) -> bool:
    return any(meetings.is_whole(one) for value in event.arguments.all() for one in values_in(value))


def _is_whole(value: Value) -> bool:
    """A whole batch, or for one: it is dealt out later, with the others."""
    return any(isinstance(source, Cut) for one in values_in(value) for source in one.sources)


def _is_of_a_share(value: Value) -> bool:
    """Samples, or how many there are: a number of them does not say of which batch."""
    return not _is_whole(value) and any(one.scale in _OF_SAMPLES for one in values_in(value))


_OF_SAMPLES = PER_SAMPLE | {Scale.COUNT}
