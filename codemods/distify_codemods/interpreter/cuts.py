"""Batches that a program makes without a loader: rows that it cuts out, text that it folds, samples that it draws.

Followed only where it is asked for (`Cutting`), in programs whose training loops run over no loader.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from distify_codemods.allocation import Const, Obj
from distify_codemods.events import Kind
from distify_codemods.inside import root
from distify_codemods.interpreter import forms, holding, one_by_one, pairing
from distify_codemods.interpreter import sizes as given_sizes
from distify_codemods.interpreter.cut_sizes import size_objs, told_by
from distify_codemods.libraries import drawing
from distify_codemods.libraries import sizes as makers
from distify_codemods.objects import Arguments, External, Mapping, Sequence, Setting
from distify_codemods.ordered import EMPTY, Ordered
from distify_codemods.origins import CHANCE, Counter, Cut, Share
from distify_codemods.scale import Scale
from distify_codemods.values import NOTHING, Value

if TYPE_CHECKING:
    from distify_codemods.interpreter.machine import Machine

#: What makes parts of which each has as many rows as any other, or one more: of no size that is told.
_IN_PARTS = "array_split"
_FOLDS = frozenset(["view", "reshape"])
_SPLITS = frozenset(["split", "chunk", "array_split"])
#: What puts the things in a list beside each other along a new dimension.
_STACKS = frozenset("stack vstack hstack pad_sequence array asarray tensor as_tensor".split())
_NEW = frozenset(["new", "new_zeros", "new_ones", "new_full", "new_empty"])


def key_of(obj: Obj) -> tuple[cst.CSTNode | None, str]:
    """What a literal or setting is known by, in every run."""
    return obj.site, getattr(obj, "name", "")


def _in_loop(machine: Machine) -> bool:
    return any(isinstance(here.node, (cst.For, cst.While)) and here.arm == "body" for here in machine.here.up())


def _moves(value: Value) -> bool:
    """Whether it is another one in each turn: reckoned from a counter, or drawn."""
    return any(isinstance(source, Counter) or source == CHANCE for source in value.sources)


def _cut(machine: Machine, node: cst.CSTNode, sizes: Ordered[Obj], sources: Ordered[Obj | str], dims: int = 0) -> Value:
    cut = machine.made(Cut, node)
    cut.sizes |= sizes
    kept = Ordered(source for source in sources if not isinstance(source, (Cut, Share)))
    return Value(scale=Scale.SAMPLES, sources=kept | [cut], dims=dims)


# ---- rows


def rows(machine: Machine, receiver: Value, node: cst.Subscript, keys: list[Value]) -> Value | None:
    """`data[i : i + size]`, `order[:size]`, `data[drawn]`: some of the samples, others in each turn."""
    if machine.inside_models or not _in_loop(machine) or any(isinstance(obj, Mapping) for obj in receiver.objs):
        return None
    first = pairing.bounds(node.slice[0].slice, keys[0])
    fresh = receiver.scale is Scale.CONST or (receiver.scale is Scale.SAMPLES and _cuts_only(receiver))
    if not fresh or first is None or (first.lower is None and first.upper is None):
        return None
    if keys[0].scale is not Scale.CONST or pairing.is_counted(machine, first):
        return None  # a piece for each sample, of as many steps; or of as many samples as there are in another
    if not _moves(keys[0]) and CHANCE not in receiver.sources:
        return None
    value = _cut(machine, node, told_by(machine, first), receiver.sources.union(*(key.sources for key in keys)))
    cut = machine.made(Cut, node)
    cut.piece = first.lower is not None and first.upper is not None
    objs = Ordered(_listed(machine, obj, node, cut) for obj in receiver.objs if isinstance(obj, Sequence))
    return Value(objs, value.scale, value.sources, dims=receiver.dims)


def _listed(machine: Machine, samples: Sequence, node: cst.CSTNode, cut: Obj) -> Obj:
    """Some of a list of samples."""
    part = machine.made(Sequence, node, samples, "rows", per_sample=True)
    part.element = marked(machine, samples.any(), node, cut.alone, Scale.SAMPLES)
    return part


def marked(
    machine: Machine, value: Value, node: cst.CSTNode, sources: Ordered[Obj | str], scale: Scale | None = None
) -> Value:
    """A value, and each part of it, with more sources, and perhaps as one entry of a batch."""
    objs = holding.mapped(machine, value, node, "marked", lambda one: marked(machine, one, node, sources, scale))
    return replace(value, objs=objs, scale=scale or value.scale, sources=value.sources | sources)


def _cuts_only(value: Value) -> bool:
    return all(isinstance(source, (str, Cut, Counter, Setting, Const)) for source in value.sources)


# ---- folded and split data


def folded(machine: Machine, name: str, tensor: Value, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """`text.view(batch_size, -1)`; `order.split(batch_size)`; `weight.new_zeros(layers, batch_size, width)`."""
    if machine.cutting is None or tensor.scale is not Scale.CONST:
        return None
    sizes = _flat(arguments)
    if name in _NEW:
        return _sized(machine, sizes[:1] if name == "new_full" and len(sizes) > 1 else sizes, node)
    if machine.inside_models:
        return None
    if name in _FOLDS and len(sizes) > 1 and size_objs(sizes[0]) and any(_is(size, -1) for size in sizes[1:]):
        return _cut(machine, node, size_objs(sizes[0]), tensor.sources, dims=2)
    if name in _FOLDS and len(sizes) > 1 and _is(sizes[0], -1) and _known(machine, sizes[1]):
        value = _cut(machine, node, size_objs(sizes[1]), tensor.sources)
        return Value(value.objs, Scale.TURNED, value.sources)
    if name in _SPLITS and "dim" not in arguments.keywords and len(sizes) == 1 and not _is_text(sizes[0]):
        pieces = machine.made(Sequence, node, "pieces")
        pieces.element = _cut(machine, node, size_objs(sizes[0]), tensor.sources)
        machine.made(Cut, node).uneven = name == _IN_PARTS and not _are_places(sizes[0])
        return Value(pieces.alone)
    return None


def refolded(machine: Machine, name: str, tensor: Value, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """`tokens[start : start + size * length].view(size, length)`: its rows are samples from here on, and not before.

    A rank's share does not have as many rows as that says; and the rows of a batch whose size is known, of which there
    is another number, are no samples.
    """
    sizes = _flat(arguments) if machine.cutting is not None and name in _FOLDS else []
    told = size_objs(sizes[0]) if sizes else EMPTY
    cuts = [source for source in tensor.sources if isinstance(source, (Cut, Share))]
    if not told or not cuts:
        return None
    known = EMPTY.union(*(cut.sizes for cut in cuts if isinstance(cut, Cut)))
    is_whole = all(isinstance(cut, Cut) for cut in cuts) and forms.OUTPUT not in tensor.sources
    if is_whole and not machine.inside_models and (not known or any(_is_same(one, told) for one in known)):
        return _cut(machine, node, told, tensor.sources, dims=len(sizes))
    return Value(scale=Scale.UNKNOWN, sources=tensor.sources)


def _is_same(size: Obj, others: Ordered[Obj]) -> bool:
    """Whether it is one of these, or a literal for the same number."""
    number = size.value if isinstance(size, Const) else None
    return size in others or (number is not None and any(getattr(one, "value", None) == number for one in others))


def of_pieces(machine: Machine, name: str, value: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`stack([data[i : i + steps] for i in starts])`: whether a piece is a batch or a sample is not seen."""
    if machine.cutting is None:
        return value
    given = [obj for value in arguments.all() for obj in value.objs]
    listed = [obj for obj in given if isinstance(obj, Sequence) and not obj.per_sample]
    parts = [obj.element for obj in listed if obj.element is not None]
    parts += [part for obj in listed if name in _STACKS for part in obj.items or ()]
    if not any(_is_of_a_piece(source) for part in parts for source in part.sources):
        return value
    cut = machine.made(Cut, node, foreign=True)
    return Value(value.objs, Scale.UNKNOWN, value.sources | [cut])


def _is_of_a_piece(source: Obj | str) -> bool:
    cut = source.of if isinstance(source, Share) else source
    return isinstance(cut, Cut) and cut.piece


def _flat(arguments: Arguments) -> list[Value]:
    """Sizes given one by one, or as a tuple."""
    sizes = [*arguments.positional]
    sizes += [arguments.keywords[name] for name in ("size", "shape") if name in arguments.keywords]
    if sizes:
        only = sizes[0].single() if len(sizes) == 1 else None
        if isinstance(only, Sequence) and only.items is not None:
            return list(only.items)
    return sizes


def _are_places(value: Value) -> bool:
    """Where to split, instead of into how many."""
    return any(isinstance(obj, (Sequence, External)) for obj in value.objs)


def _is_text(value: Value) -> bool:
    return any(isinstance(obj, Const) and isinstance(obj.value, str) for obj in value.objs)


def _is(value: Value, number: int) -> bool:
    return value.constant() == number


def sampled(machine: Machine, sampler: External, node: cst.CSTNode) -> Value:
    """`for rows in BatchSampler(sampler, size, drop_last):`, a list with the number of each sample."""
    given = sampler.arguments or Arguments()
    value = _cut(machine, node, size_objs(given.get("batch_size", 1) or NOTHING), given.sources)
    machine.made(Cut, node).foreign = any(map(_is_strange, (given.get("sampler", 0) or NOTHING).objs))
    listed = machine.made(Sequence, node, sampler, "rows", per_sample=True)
    listed.element = Value(scale=Scale.SAMPLES, sources=value.sources)
    return Value(listed.alone, value.scale, value.sources)


# ---- made and drawn


def made(machine: Machine, name: str, arguments: Arguments, node: cst.CSTNode) -> Value | None:
    """`torch.randint(high, (batch_size, length))`, `numpy.random.choice(n, batch_size)`; zeros of the batch's size."""
    if machine.cutting is None or (machine.inside_models and not machine.cutting.sizes):
        return None
    sizes = given_sizes.given(name, arguments) if name not in makers.RELATED else None
    if not sizes or any(value.scale is not Scale.CONST for value in sizes) or one_by_one.are_over_samples(machine):
        return None
    if any(_known(machine, value) for value in sizes):
        sized = _sized(machine, sizes, node)
        return _chosen(machine, sized, arguments.first, node) if sized and name in makers.CHOSEN else sized
    drawn = name in makers.DRAWN or name in makers.CHOSEN
    if drawn and not machine.cutting.sizes and not machine.inside_models and _in_loop(machine) and size_objs(sizes[0]):
        value = _cut(machine, node, size_objs(sizes[0]), Ordered([CHANCE]), dims=len(sizes))
        return _chosen(machine, value, arguments.first, node) if name in makers.CHOSEN else value
    return None


def _chosen(machine: Machine, value: Value, of: Value, node: cst.CSTNode) -> Value:
    """`random.sample(memory, size)`: each that is drawn has the parts that each has which was put in."""
    listed = [obj for obj in of.objs if isinstance(obj, Sequence)]
    if len(listed) < len(of.objs) or of.open:
        return value
    rows = [machine.made(Sequence, node, obj, "rows", per_sample=True) for obj in listed]
    for row, obj in zip(rows, listed, strict=True):
        row.element = _formed_as(machine, obj.any(), value, node)
    return replace(value, objs=Ordered(rows))


def _formed_as(machine: Machine, one: Value, batch: Value, node: cst.CSTNode) -> Value:
    """Parts as those of `one`, of which nothing else is known than of the batch."""
    lists = replace(one, objs=Ordered(obj for obj in one.objs if isinstance(obj, (Sequence, Mapping))))
    objs = holding.mapped(machine, lists, node, "drawn", lambda part: _formed_as(machine, part, batch, node))
    return Value(objs, Scale.SAMPLES, batch.sources, open=len(lists.objs) < len(one.objs))


def foreign(machine: Machine, obj: Obj, name: str, value: Value, arguments: Arguments, node: cst.CSTNode) -> Value:
    """`generator.choice(n, size)`; `data.next_batch(size)`: what something of a library gives of a batch's size."""
    if machine.inside_models or value.scale is not Scale.CONST or obj in machine.modules or not _is_strange(obj):
        return value
    library = drawing.GENERATORS.get(obj.name) if isinstance(obj, External) else None
    if library is not None and isinstance(obj, External) and obj.arguments is not None and obj.arguments.all():
        drawn = made(machine, f"{library}.{'randint' if name == 'integers' else name}", arguments, node)
        return value if drawn is None else drawn
    sizes = [size for given in arguments.all() for size in _flat(Arguments([given]))]
    if not _in_loop(machine) or not any(_known(machine, size) for size in sizes):
        return value
    cut = machine.made(Cut, node, foreign=True)
    return Value(value.objs, Scale.SAMPLES, value.sources | [cut], open=value.open)


def _is_strange(obj: Obj) -> bool:
    """Something of a library that is neither torch's nor Python's, or a part of it."""
    obj = root(obj)
    return isinstance(obj, External) and not obj.name.startswith(("torch", "builtins."))


def _known(machine: Machine, value: Value) -> bool:
    """Whether it is the size of a batch that is cut elsewhere: one number, or one of several."""
    sizes = machine.cutting.sizes if machine.cutting else frozenset()
    told = size_objs(value)
    return bool(sizes and told) and told == value.objs and all(key_of(obj) in sizes for obj in told)


def _sized(machine: Machine, sizes: list[Value], node: cst.CSTNode) -> Value | None:
    """A tensor with a dimension of the batch's size."""
    places = [place for place, value in enumerate(sizes) if _known(machine, value)]
    if not places:
        return None
    value = _cut(machine, node, EMPTY.union(*(size_objs(sizes[place]) for place in places)), EMPTY)
    machine.made(Cut, node).fitted = True
    scale = {0: Scale.SAMPLES, 1: Scale.TURNED}.get(places[0], Scale.UNKNOWN)
    return Value(value.objs, scale if len(places) == 1 else Scale.UNKNOWN, value.sources, dims=len(sizes))


def goes_through_samples(machine: Machine, node: cst.BaseComp, over: Value) -> bool:
    """`[f(one) for one in batch]`: an item for each sample of a cut batch."""
    if machine.cutting is None or node.for_in.ifs or node.for_in.inner_for_in is not None:
        return False
    listed = [obj for obj in over.objs if isinstance(obj, Sequence)]
    cut = any(isinstance(source, (Cut, Share)) for source in over.sources)
    return over.scale is Scale.SAMPLES and cut and all(obj.per_sample for obj in listed)


# ---- shares


def dealt(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    """What an expression or a turn of a loop gives, once each rank takes its share of it."""
    if machine.cutting is None or node not in machine.cutting.shares:
        return value
    machine.event(Kind.SHARE, node, value=value)
    return shared(machine, value, node)


def _share(machine: Machine, cut: Cut, node: cst.CSTNode) -> Share:
    share = machine.made(Share, node, cut, of=cut)
    if machine.pooling is not None:
        machine.pooling.shares.add(share)
    return share


def shared(machine: Machine, value: Value, node: cst.CSTNode) -> Value:
    """A rank's part of a batch, or of each of the batches in a tuple, list or dictionary."""
    objs = holding.mapped(machine, value, node, "share", lambda one: shared(machine, one, node))
    sources = Ordered(_share(machine, source, node) if isinstance(source, Cut) else source for source in value.sources)
    return replace(value, objs=objs, sources=sources)
