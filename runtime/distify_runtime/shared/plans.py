"""How the calls of a model are shared: their arguments, and how outputs come together again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from distify_runtime import communicator
from distify_runtime.shared import hearing, messages, operations, related, shapes
from distify_runtime.shared.altered import altered
from distify_runtime.shared.batches import Batch, batches
from distify_runtime.shared.doubled import doubled
from distify_runtime.shared.entries import blank_of, lists_in, owner_of
from distify_runtime.shared.given import Given
from distify_runtime.shared.graph import Operation, sums_reached
from distify_runtime.shared.layouts import Alike, Differ, Layout, Owned, Rows, Weighted, alike
from distify_runtime.shared.messages import Station
from distify_runtime.shared.region import Course, Region, even_counts
from distify_runtime.shared.shapes import Agreed, Shape, Surprise
from distify_runtime.shared.state import Counted
from distify_runtime.shared.structure import Unknown, object_in, rebuilt, tensors_in

_MOST_AGREED = 10_000
_MASK = 2**62 - 1


@dataclass(frozen=True)
class Call:
    """A call of a model: its arguments, and their form, which is what a plan is for."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: list[Tensor]
    trains: bool  # gradients are wanted, of a model that is trained as it is now: in `eval()`, some are
    form: Any

    @classmethod
    def of(
        cls, model: nn.Module, trains: bool, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call | str:
        """Or why there is nothing that could be split."""
        try:
            tensors = tensors_in((args, kwargs))
            lists = tuple(one.tensors for one in lists_in((args, kwargs)))  # which a plan is for, as they are
        except Unknown as unknown:
            return f"it is given {unknown}, of which no part can be taken"
        if held := object_in((args, kwargs)):
            return f"it is given {held}, of which no part can be taken"
        if not any(one.dim() > 0 for one in tensors):
            return "it is given no tensor that a batch could be in"
        # Hooks may keep what they see.
        keeping = sum(len(part._forward_hooks) + len(hearing.of(part)) for part in model.modules())
        given = _form((args, kwargs)), tuple(map(_kind, tensors)), lists
        words = (*given, model.training, torch.is_grad_enabled(), keeping)
        name = getattr(getattr(function, "func", function), "__name__", "")
        return cls(function, args, kwargs, tensors, trains, (name, *words))

    def cut_off(self) -> Call:
        """The same call, of copies of its arguments that gradients flow to and no further."""
        tensors = [one.detach().clone().requires_grad_(one.requires_grad) for one in self.tensors]
        args, kwargs = rebuilt((self.args, self.kwargs), iter(tensors))
        return replace(self, args=args, kwargs=kwargs, tensors=tensors)

    def doubled(self) -> Call:
        """The same call, of arguments in double precision that gradients flow to and no further."""
        tensors = [doubled(one.detach()).requires_grad_(one.requires_grad) for one in self.tensors]
        args, kwargs = rebuilt((self.args, self.kwargs), iter(tensors))
        return replace(self, args=args, kwargs=kwargs, tensors=tensors)

    def altered(self, batch: Batch) -> Call | None:
        """The same call, of a batch as a later one may be; None where it would be no other."""
        tensors = None if batch.lists else altered(self.tensors, batch.dims)
        if tensors is None:
            return None
        args, kwargs = rebuilt((self.args, self.kwargs), iter(tensors))
        return replace(self, args=args, kwargs=kwargs, tensors=tensors)

    def narrowed(self, batch: Batch, samples: int) -> Call:
        """The same call, of the first samples of its batch, which is not a list."""
        tensors = [
            one.narrow(batch.dims[index], 0, samples) if index in batch.dims else one
            for index, one in enumerate(self.tensors)
        ]
        args, kwargs = rebuilt((self.args, self.kwargs), iter(tensors))
        return replace(self, args=args, kwargs=kwargs, tensors=tensors)

    @property
    def is_of_one(self) -> bool:
        """Whether a single sample is all that it is given, as far as shapes tell: nothing in it is for two ranks."""
        rows = [one.shape[0] for one in self.tensors if one.dim() > 1]
        return bool(rows) and set(rows) == {1} and not any(batch.lists for batch in self.batches())

    def batches(self) -> list[Batch]:
        """What the batch could be, the likeliest first."""
        return batches((self.args, self.kwargs), self.tensors)

    def repeated(self) -> tuple[Any, bool]:
        """What the call gives, and whether it has written into its arguments; these stay as they are."""
        given = [one.clone() for one in self.tensors]
        related.stand_for(given)
        before = [one._version for one in given]
        args, kwargs = rebuilt((self.args, self.kwargs), iter(given))
        held = Given((args, kwargs))
        try:
            found = self.function(*args, **kwargs)
        finally:
            writes = held.put_back()
        return found, writes or any(one._version != version for one, version in zip(given, before, strict=True))

    @property
    def sizes(self) -> tuple[torch.Size, ...]:
        return tuple(one.shape for one in self.tensors)

    @property
    def is_small(self) -> bool:
        """Whether what is the batch most of the time holds fewer samples than there are ranks."""
        lists = [len(one) for one in lists_in((self.args, self.kwargs))]
        sizes = lists or [one.shape[0] for one in self.tensors if one.dim() > 0]
        return 2 * sum(size < communicator.world_size() for size in sizes) >= len(sizes)

    def pattern(self, batch: Batch) -> tuple[Any, ...]:
        """What a model may go by that is of the sizes alone: dimensions of one (`squeeze`), parts of one sample."""
        counts = even_counts(batch.samples(self.tensors), communicator.world_size())
        few = len(set(counts)) if min(counts) == 1 else 0
        return few, tuple(tuple(size == 1 for size in shape) for shape in self.sizes)

    @cached_property
    def form_hash(self) -> int:
        """The same on all ranks, whatever their hash seed."""
        text = repr(self.form).encode()
        return int.from_bytes(text, "little") % (2**61 - 1)


def _kind(tensor: Tensor) -> tuple[int, str, bool]:
    return tensor.dim(), str(tensor.dtype), tensor.requires_grad


def _form(value: Any) -> str:
    """The structure, and what switches branches: flags and words, but no numbers."""
    if isinstance(value, bool | str | type(None)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_form(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "[" + ",".join(map(_form, value)) + "]"
    return type(value).__qualname__


@dataclass(frozen=True)
class Output:
    """How one tensor of the outputs comes together: `dim` holds the batch, or (-1) each rank has a value to be added
    up with its `weight`, or (-2) all ranks have the same one, without a gradient, or (-3) one rank has it: the `entry`
    of a list of samples."""

    dim: int
    dims: int = 0  # how many dimensions the whole has
    steps_first: bool = False  # a dimension of (steps, samples) in one, not (samples, steps)
    ragged: bool = False  # how much a rank has does not follow from its number of samples
    weight: str = "mean"  # or "sum"
    guessed: bool = False  # from its values alone: no gradients have shown what the parts count for
    entry: int = 0

    def restored(self, mine: Tensor, samples: int) -> Tensor:
        """A rank's part, with the dimension of the batch that `squeeze` takes from a part of one sample."""
        is_squeezed = samples == 1 and self.dim >= 0 and mine.dim() == self.dims - 1
        return mine.unsqueeze(self.dim) if is_squeezed else mine

    def as_ragged_as(self, before: Output) -> Output:
        """What was once found not to follow from the number of samples does so by chance."""
        return replace(self, ragged=True, steps_first=False) if before.ragged and before.dim == self.dim else self

    def layout(self, counts: tuple[int, ...], parts: Sequence[Shape]) -> Layout:
        """parts: each rank's. Raises Surprise."""
        if self.dim == -3:
            owner, blank = owner_of(self.entry, counts), blank_of(self.entry)
            dtype, *shape = parts[owner]
            if any(part != (dtype, *blank) for rank, part in enumerate(parts) if rank != owner):
                raise Surprise
            return Owned(owner, tuple(shape), len(counts), blank)
        if self.dim < 0:
            if any(part != parts[0] for part in parts):
                raise Surprise
            total = sum(counts)
            weights = tuple(count / total if self.weight == "mean" else 1.0 for count in counts)
            return Weighted(weights) if self.dim == -1 else Alike()
        at = 1 + self.dim
        if any(len(part) != 1 + self.dims or _without(part, at) != _without(parts[0], at) for part in parts):
            raise Surprise
        lengths = tuple(part[at] for part in parts)
        if self.ragged:
            return Rows(self.dim, lengths)
        per_sample = lengths[0] // counts[0]
        if lengths != tuple(per_sample * count for count in counts):
            raise Surprise
        return Rows(self.dim, counts, per_sample if self.steps_first else 1)


def _without(shape: Shape, at: int) -> Shape:
    return shape[:at] + shape[at + 1 :]


@dataclass
class Plan:
    """`seen`: whether a check has had outputs to compare that differ from each other at all.

    in_double: whether double precision was asked if what differs is rounding.
    """

    batch: Batch
    outputs: list[Output]
    exact_losses: bool = False
    seen: bool = False
    sizes: tuple[tuple[str, str], ...] = ()  # attributes that count samples: a module's name, and the attribute's
    in_double: bool = False
    lists: bool = False  # whether outputs are lists, with an entry for each sample
    agreed: dict[Any, Agreed] = field(default_factory=dict)  # by the sizes of the arguments
    course: Course = field(default_factory=list)
    operations: set[Operation] = field(default_factory=set)  # what the pass that was compared has computed
    counted: Counted | None = None  # what a call that is taken back has to give back, if nothing else
    generators: list[Any] = field(default_factory=list)  # the script's own, that it draws from: these are rewound
    followed: int = 1  # calls that have followed it

    @property
    def guesses(self) -> bool:
        return any(one.guessed for one in self.outputs)

    def ending(self, sizes: Any, counts: tuple[int, ...]) -> Station:
        """Where ranks meet whose parts are computed."""
        agreed = self._known(sizes, counts)
        return shapes.station(len(self.outputs)) if agreed is None else agreed.station

    def _known(self, sizes: Any, counts: tuple[int, ...]) -> Agreed | None:
        return None if any(output.ragged for output in self.outputs) else self.agreed.get((sizes, counts))

    def gathered(self, region: Region, found: Sequence[Tensor], sizes: Any) -> list[Tensor]:
        """The whole tensors; `sizes`: those of the arguments. A collective. Raises Surprise on every rank."""
        own = region.counts[communicator.rank()]
        mine = list(found)
        for index, output in enumerate(self.outputs[: len(found)]):
            mine[index] = output.restored(found[index], own)
        reached = self._reached(region, found)
        return region.end(reached, lambda anew: self._exchanged(region, mine, sizes, reached, anew))

    def _exchanged(self, region: Region, mine: list[Tensor], sizes: Any, reached: int, anew: bool) -> list[Tensor]:
        """A collective. Raises Surprise on every rank; Misfit where some rank's shapes are others than agreed."""
        agreed = None if anew else self._known(sizes, region.counts)
        if agreed is None:
            if len(self.agreed) >= _MOST_AGREED:
                self.agreed.clear()
            agreed = self.agreed[sizes, region.counts] = self._agree(region, mine, reached)
        return _gathered(region, mine, agreed, reached)

    def _reached(self, region: Region, found: Sequence[Tensor]) -> int:
        """A number that follows from the sums inside that backward passes come by, of each output: the same on all
        ranks, or one would wait there for others. Of lists of samples, which are each one rank's, it is of all."""
        if not region.place or not torch.is_grad_enabled():
            return 0
        entries, others = 0, list[int]()
        for index, places in enumerate(sums_reached(found)):
            dim = self.outputs[index].dim if index < len(self.outputs) else 0
            entries |= places if dim == -3 else 0
            others.append(places if dim > -2 else 0)
        return hash((entries, *others)) & _MASK  # of numbers alone: the same in every process

    def _agree(self, region: Region, mine: Sequence[Tensor], reached: int) -> Agreed:
        """A collective. Raises Surprise on every rank."""
        everyone = shapes.exchanged(region.tag, mine, len(self.outputs), reached)
        layouts: list[Layout] = []
        for index, output in enumerate(self.outputs):
            parts = [one[index] for one in everyone]
            try:
                layouts.append(output.layout(region.counts, parts))
            except Surprise:
                told = ", ".join(map(shapes.told, parts))
                raise Surprise(f"tensor {index + 1} of the outputs has shapes {told} on the ranks") from None
        sent = [one for _, one, _ in _sent(mine, layouts)]
        station = Station.of(sent, [layout.shapes(one.shape) for _, one, layout in _sent(mine, layouts)])
        return Agreed(everyone, layouts, station)


def _gathered(region: Region, mine: list[Tensor], agreed: Agreed, reached: int) -> list[Tensor]:
    """A collective. Raises Misfit on every rank where some rank's shapes are others than agreed."""
    if not agreed.fits(mine):
        messages.exchange_nothing(region.tag, agreed.station)
    if not agreed.layouts:
        region.readings.everyone = messages.exchange(region.tag, [], [], read=region.readings.words).read
        return mine
    sent = _sent(mine, agreed.layouts)
    layouts, parts = [layout for *_, layout in sent], [one for _, one, _ in sent]
    try:
        whole = operations.gather(region.tag, layouts, parts, region.anchors, region.readings, reached)
    except Differ:
        raise Surprise("what was the same for all parts is another thing for each") from None
    if torch.is_grad_enabled():
        related.returned(region.tag, region.anchors, layouts, parts, whole)
    for (index, _, layout), one in zip(sent, whole, strict=True):
        mine[index] = mine[index] if isinstance(layout, Alike) else one
    return mine


def _sent(mine: Sequence[Tensor], layouts: Sequence[Layout]) -> list[tuple[int, Tensor, Layout]]:
    """What travels of each output, by its place. Last comes what is only compared: the first says where to travel."""
    found = [
        (index, alike(one) if isinstance(layout, Alike) else one, layout)
        for index, (one, layout) in enumerate(zip(mine, layouts, strict=True))
    ]
    return sorted(found, key=lambda one: isinstance(one[2], Alike))
