"""Batches that are cut by hand: where each rank takes its share of them, tried out before it is believed.

Every rank draws, cuts and folds the whole batch, alike; then it keeps its own samples of it. The place is the first
assignment on the way to the training forward that holds batches of training and nothing else; where there is none, the
loop that an iterator of the script's own hands its batches to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from distify_codemods import tree
from distify_codemods.allocation import Const, Obj
from distify_codemods.decisions import played
from distify_codemods.decisions.base import Blocked, Slicing, made_at
from distify_codemods.decisions.one_sample import is_of_one_row
from distify_codemods.events import Event, Kind
from distify_codemods.facts import Facts
from distify_codemods.interpreter import Cutting
from distify_codemods.interpreter.cuts import key_of
from distify_codemods.interpreter.forms import OUTPUT
from distify_codemods.objects import Mapping, Sequence
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import Cut, Share
from distify_codemods.program import Module
from distify_codemods.records import dataclass
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value

MOST_PLACES = 12


@dataclass(frozen=True)
class _Layout:
    """What an expression holds: batches, all with their samples along one dimension."""

    dimension: int
    cuts: Ordered[Cut]


class Dealt(NamedTuple):
    """The facts of a program that cuts its batches by hand, once each rank takes its share of them; or as they are."""

    facts: Facts
    slicings: tuple[Slicing, ...] = ()
    uncut: tuple[Blocked, ...] = ()


def decide_cuts(facts: Facts) -> Dealt:
    if facts.training_loops or not facts.backwards:
        return Dealt(facts)
    seen = facts.tried(cutting=Cutting())
    cuts = _trained_on(seen)
    if not cuts:
        return Dealt(facts)
    game = played.environment(facts)
    if game is not None:
        why = ": there is no data to share out"
        return Dealt(facts, uncut=(played.blocked("DATA04", game.module, game.node, why),))
    if (alone := next(filter(_is_one_row, cuts), None)) is not None:
        return Dealt(facts, uncut=(Blocked("DATA04", *made_at(alone), *_ONE),))
    if (parts := next((cut for cut in cuts if cut.uneven), None)) is not None:
        return Dealt(facts, uncut=(Blocked("DATA04", *made_at(parts), *_UNEVEN),))
    sizes = frozenset(key_of(size) for cut in cuts for size in cut.sizes)
    if sizes:
        seen = facts.tried(cutting=Cutting(sizes))
        unknown = [cut for cut in _trained_on(seen) if cut.foreign]
        if unknown:
            return Dealt(facts, uncut=(Blocked("DATA04", *made_at(unknown[0]), *_UNKNOWN),))
    avoided: frozenset[cst.CSTNode] = frozenset()
    for loops in (False, True, False, True):
        tried = _shared(seen, sizes, loops, avoided)
        if tried is not None and not _is_a_batch(tried[0]):
            break
        elsewhere = _shared_elsewhere(tried[0]) if tried is not None else frozenset()
        if tried is not None and not elsewhere:
            return Dealt(*tried) if _models_take_shares(tried[0]) else Dealt(facts)
        avoided |= elsewhere
    first = next(iter(_trained_on(seen)))
    return Dealt(facts, uncut=(Blocked("DATA04", *made_at(first), *_NOWHERE),))


def _is_one_row(cut: Cut) -> bool:
    """`data[i : i + 1]`"""
    rows = cut.site.slice[0].slice if isinstance(cut.site, cst.Subscript) else None
    return isinstance(rows, cst.Slice) and is_of_one_row(rows)


def _is_a_batch(facts: Facts) -> bool:
    """Whether what is shared out is a batch in each turn, and no window of something."""
    shares = facts.of_kind(Kind.SHARE)
    given = {one for share in shares for one in _sources_of(share.value)}
    cuts = {one.of if isinstance(one, Share) else one for one in given}
    if any(isinstance(cut, Cut) and _is_a_window(cut) for cut in cuts):
        return False
    left_out = [one for one in shares if _is_left_out(facts, one, shares)]
    return not left_out or (len(left_out) < len(shares) and all(map(_fits_another, left_out)))


def _fits_another(share: Event) -> bool:
    """`if recurrent: state = zeros(batch_size, width)`: made for a batch that is shared out on all ways."""
    cuts = (one.of if isinstance(one, Share) else one for one in _sources_of(share.value))
    return all(isinstance(cut, Cut) and cut.fitted for cut in cuts)


def _sources_of(value: Value) -> Iterator[Obj | str]:
    return (source for part in _parts(value) for source in part.sources)


def _is_a_window(cut: Cut) -> bool:
    """`labels[start:stop]`, where `frames[:, start:stop]` says that the rows are no samples."""
    if cut.module is None or not isinstance(cut.site, cst.Subscript):
        return False
    bounds = tree.code_of(cut.site.slice[0].slice)
    return ":" in bounds and any(
        isinstance(other, cst.Subscript) and any(tree.code_of(one.slice) == bounds for one in other.slice[1:])
        for other in tree.walk(cut.module.function(cut.site))
    )


def _is_left_out(facts: Facts, share: Event, shares: list[Event]) -> bool:
    """`if args.crop: x = x[start:stop]`: under a test that is not settled, of which the other arm has no share."""
    loops = {loop for backward in facts.backwards for loop in backward.turns}
    for here in share.here.up():
        if here.node in loops:
            return False
        trains = any(backward.inside_of(here) for backward in facts.backwards)  # in the same arm
        if here.arm and isinstance(here.node, cst.If) and not here.is_decided and not trains:
            others = (one.arm for other in shares for one in other.here.up() if one.node is here.node)
            if all(arm in ("", here.arm) for arm in others):
                return True
    return False


def _models_take_shares(facts: Facts) -> bool:
    """Whether some forward pass of training has samples of a share, if any is given something: else its batch is whole,
    whatever was shared out beside it (the noise that its loss adds)."""
    passes = [event for event in facts.forwards if event.grad and _leads_to(event, facts)]
    given = [part for event in passes for value in event.arguments.all() for part in _parts(value)]
    return not given or any(isinstance(source, Share) for part in given for source in part.sources)


def _shared_elsewhere(facts: Facts) -> frozenset[cst.CSTNode]:
    """Where batches are shared out that something beside the training sees, too: an evaluation would be of a share."""
    return frozenset(
        source.site
        for event in facts.forwards if not event.grad and not facts.in_training(event)
        for value in event.arguments.all() for part in _parts(value) for source in part.sources
        if isinstance(source, Share) and source.site is not None
    )  # fmt: skip


def _shared(
    facts: Facts, sizes: frozenset[tuple[cst.CSTNode | None, str]], loops: bool, avoided: frozenset[cst.CSTNode]
) -> tuple[Facts, tuple[Slicing, ...]] | None:
    """Places after which no training step depends on a whole batch. `loops`: those that get batches come first."""
    slicings: tuple[Slicing, ...] = ()
    while len(slicings) < MOST_PLACES:
        cuts = _trained_on(facts)
        if not cuts:
            return facts, slicings
        assigned, elsewhere = _next_places(facts, cuts, slicings, avoided)
        handed_out = _next_loops(facts, cuts, slicings)
        found = (handed_out or assigned if loops else assigned or handed_out) or elsewhere
        if not found:
            return None
        slicings += tuple(found)
        facts = facts.tried(cutting=Cutting(sizes, frozenset(one.node for one in slicings)))
        if not all(_is_of_training(facts, event) for event in facts.of_kind(Kind.SHARE)):
            return None
    return None


def _is_of_training(facts: Facts, share: Event) -> bool:
    """Whether what is shared out there is a whole batch of training, each time."""
    trained = {source.of for source in _sources(facts) if isinstance(source, Share)} | _trained_on(facts)
    if isinstance(share.node, cst.For):
        parts = [part.sources for part in _parts(share.value)]
        cuts = {source for sources in parts for source in sources if isinstance(source, Cut)}
        return bool(cuts) and cuts <= trained and not any(isinstance(one, Share) for part in parts for one in part)
    layout = _layout(share.value)
    return layout is not None and layout.cuts <= trained


def _trained_on(facts: Facts) -> Ordered[Cut]:
    """The whole batches that a training step still depends on."""
    return Ordered(source for source in _sources(facts) if isinstance(source, Cut))


def _sources(facts: Facts) -> Ordered[Obj | str]:
    """What training steps depend on."""
    values = [event.receiver for event in facts.backwards]
    for event in facts.forwards:
        if event.grad and any(map(event.inside, facts.loops_with_steps)) and _leads_to(event, facts):
            values += event.arguments.all()
    return EMPTY.union(*(value.sources for value in values))


def _leads_to(event: Event, facts: Facts) -> bool:
    """Whether a forward pass comes before a backward pass in the same turn of the loop around that."""
    return any(
        event.before(backward) and any(event.inside_of(around) for around in backward.loops()[:1])
        for backward in facts.backwards
    )


def _next_places(
    facts: Facts, cuts: Ordered[Cut], taken: tuple[Slicing, ...], avoided: frozenset[cst.CSTNode]
) -> tuple[list[Slicing], list[Slicing]]:
    """The first assignments that hold whole batches of training, one for each batch; and one in another function."""
    known = {one.node for one in taken} | avoided
    frames = {here.frame.node for backward in facts.backwards for here in backward.here.up()}
    models = _inside_models(facts)
    found: list[Slicing] = []
    covered: set[Cut] = set()
    elsewhere: dict[str, Slicing] = {}  # the first in a turn, and the first that is later
    for node, value in facts.run.values.items():
        if node in known or not isinstance(node, cst.BaseExpression):
            continue
        layout = _layout(value)
        if layout is None or not _is_new(layout, cuts, covered):
            continue
        module = next((module for module in facts.run.frames if node in module.parents), None)
        if module is None or module.function(node) in models:
            continue
        place = Slicing(module, node, layout.dimension, "each rank takes its own samples of the batch")
        if _is_assigned(module, node):
            if module.function(node) in frames:
                found.append(place)
                covered |= layout.cuts
            elsewhere.setdefault("later", place)
        elif avoided and _is_in_turn(facts, module, node):
            elsewhere.setdefault("in turn", place)
        elif any(cut.site is node for cut in cuts):
            elsewhere.setdefault("later", place)
    return found, [elsewhere[where] for where in ("in turn", "later") if where in elsewhere][:1]


def _is_new(layout: _Layout, cuts: Ordered[Cut], covered: set[Cut]) -> bool:
    """Whether batches of training lie in it and nothing else, of which none has a place so far."""
    return bool(layout.cuts & cuts) and layout.cuts <= cuts and not layout.cuts & covered


def _is_in_turn(facts: Facts, module: Module, node: cst.CSTNode) -> bool:
    """`columns[start:stop]`, in a loop around a backward pass."""
    turns = {here.node for backward in facts.backwards for here in backward.loops()}
    return isinstance(node, cst.Subscript) and any(one in turns for one in module.enclosing(node))


def _next_loops(facts: Facts, cuts: Ordered[Cut], taken: tuple[Slicing, ...]) -> list[Slicing]:
    """`for x, y in batches:` over an iterator of the script: the outermost such loop around a backward pass."""
    known = {one.node for one in taken}
    around = [here for backward in facts.backwards for here in reversed(backward.loops())]
    for here in around:
        loop, module = here.node, here.frame.module
        if not isinstance(loop, cst.For) or not isinstance(loop.body, cst.IndentedBlock) or loop in known:
            continue
        layouts = _handed_out(facts, loop)
        if layouts and all(one is not None and one.cuts <= cuts for one in layouts.values()):
            dimensions = {one.dimension for one in layouts.values() if one is not None}
            if len(dimensions) == 1:
                why = "each rank takes its own samples of the batch"
                return [Slicing(module, loop, dimensions.pop(), why, tuple(layouts))]
    return []


def _handed_out(facts: Facts, loop: cst.For) -> dict[str, _Layout | None]:
    """The variables of a loop that depend on whole batches, and how those lie in them where they are first read."""
    names = {node.value for node in tree.walk(loop.target) if isinstance(node, cst.Name)}
    found: dict[str, _Layout | None] = {}
    for node in tree.walk(loop.body):
        if isinstance(node, cst.Name) and node.value in names - found.keys():
            value = facts.run.values.get(node)
            if value is not None and any(isinstance(source, Cut) for part in _parts(value) for source in part.sources):
                found[node.value] = _layout(value)
    return found


def _inside_models(facts: Facts) -> set[cst.CSTNode]:
    """The functions that forward passes of trained models run."""
    calls = {event.node for event in facts.forwards}
    return {event.here.frame.node for event in facts.run.events if calls & set(event.here.frame.context)}


def _is_assigned(module: Module, node: cst.CSTNode) -> bool:
    parent = module.parents.get(node)
    return isinstance(parent, (cst.Assign, cst.AnnAssign)) and parent.value is node


def _layout(value: Value) -> _Layout | None:
    """None where something is no whole batch, or batches lie along different dimensions."""
    parts = list(_parts(value))
    dimensions = {Scale.SAMPLES: 0, Scale.TURNED: 1}
    found = {dimensions.get(part.scale) for part in parts}
    cuts = [Ordered(source for source in part.sources if isinstance(source, Cut)) for part in parts]
    mixed = any(isinstance(source, Share) or source == OUTPUT for part in parts for source in part.sources)
    if len(found) != 1 or None in found or mixed or not all(cuts):
        return None
    only = found.pop()
    assert only is not None
    if only == 0 and any(isinstance(obj.site, cst.List) for obj in value.objs if isinstance(obj, Sequence)):
        return None  # a list is taken for a list of samples
    return _Layout(only, EMPTY.union(*cuts))


def _parts(value: Value, around: frozenset[Obj] = frozenset()) -> Iterator[Value]:
    """The value, or what is in its tuples, lists and dictionaries, without literals. around: what it is in itself."""
    held = [obj for obj in value.objs if isinstance(obj, (Sequence, Mapping))]
    if not held or any(isinstance(obj, Sequence) and obj.per_sample for obj in held):
        if not (value.objs and all(isinstance(obj, Const) for obj in value.objs)):
            yield value
        return
    for obj in held:
        within = around | {obj}
        if obj in around:
            yield NOTHING  # a list that is in itself, for all that is known
        elif isinstance(obj, Mapping):
            yield from _parts(obj.any(), within)
        elif obj.items is None and obj.element is not None and isinstance(obj.site, cst.ListComp):
            yield from _parts(obj.element, within)
        elif obj.items is None:
            yield NOTHING  # of unknown length: a list of batches, a generator
        else:
            for item in obj.items:
                yield from _parts(item, within)


_PLAYED = (
    "the samples come from an environment that each rank would play by itself: there is no data to share out",
    played.FIX,
)
_UNKNOWN = (
    "this batch comes from something that cannot be followed: whether all ranks get the same one is not known",
    "put the data into a Dataset and loop over a DataLoader",
)
_ONE = (
    "one sample is cut out here, which cannot be dealt out to several ranks",
    "cut several for each step, or put the data into a Dataset and loop over a DataLoader",
)
_UNEVEN = (
    "these parts may differ by one sample, so that not each of them divides by the number of ranks",
    "split by the size of a batch: all but the last are of that size",
)
_NOWHERE = (
    "a batch of training is cut here by hand, and no place was found where each rank could take its share of it",
    "put the data into a Dataset and loop over a DataLoader, or take the share by hand: rt.shard_batch(batch)",
)
