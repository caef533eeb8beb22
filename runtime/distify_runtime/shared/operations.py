"""Between what every rank holds alike and what is each rank's own: four operations, each differentiable again.

    split    all ranks hold a batch -> each its part            backward: gather
    gather   each rank holds a part -> all hold the whole       backward: split
    copy     all ranks hold a tensor -> each uses it by itself  backward: the sum over the ranks
    sum      each rank holds a term -> each has the sum, for itself    backward: the sum over the ranks

After Megatron-LM's conjugate operators (arXiv 1909.08053, section 3). The backward pass of each is written with the
others, so that gradients can be differentiated themselves.

Every rank must meet in each backward pass, whichever way its part took inside the model. So `copy` and `split` also
give an *anchor*, a zero, and `gather` takes it: what comes back through a gathered output reaches them on all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from distify_runtime import communicator
from distify_runtime.shared.layouts import Layout
from distify_runtime.shared.messages import Received, Tag, What, exchange
from distify_runtime.shared.readings import Readings
from distify_runtime.shared.sums import Kind, sum_in_buckets
from distify_runtime.sparse import dense

Maybe = Tensor | None
_LAST_BIT = 62  # of the flags that a message carries


def split(
    tag: Tag, layouts: Sequence[Layout], whole: Sequence[Tensor], anchored: bool = True
) -> tuple[tuple[Tensor, ...], Maybe]:
    """This rank's parts of the tensors, and, if it is to be, an anchor where gradients flow back."""
    if not torch.is_grad_enabled() or not any(one.requires_grad for one in whole):
        return tuple(_own(layout, one).clone() for layout, one in zip(layouts, whole, strict=True)), None
    parts = _split(tag, layouts, anchored, *whole)
    return (parts[:-1], parts[-1]) if anchored else (parts, None)


def gather(
    tag: Tag,
    layouts: Sequence[Layout],
    parts: Sequence[Tensor],
    anchors: Sequence[Maybe],
    readings: Readings,
    reached: int,
) -> tuple[Tensor, ...]:
    """The whole tensors, on all ranks. A collective. Raises Misfit on all ranks where shapes do not go together.

    readings: of the pass that ends here; what stands for them travels along. reached: the same on all ranks, too.
    """
    kept = [anchor for anchor in anchors if anchor is not None]
    there = _There.of(torch.is_grad_enabled() and part.requires_grad for part in parts)
    there.readings, there.reached = readings, reached
    return tuple(_gather(tag, layouts, len(parts), there, *parts, *kept))


def copy(tag: Tag, tensors: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], Tensor]:
    """The same tensors, whose gradients are summed over the ranks; and an anchor."""
    *copies, anchor = _copy(Copied(tag), *tensors)
    return tuple(copies), anchor


def sum_over_ranks(tag: Tag, term: Tensor) -> Tensor:
    """The sum of the ranks' terms, of which each rank goes on with its own use. A collective, also in backward.

    No term of half precision: see `wide`.
    """
    return _sum(tag, term)


def wide(term: Tensor) -> Tensor:
    """Half precision is summed in single precision."""
    return term.to(torch.promote_types(term.dtype, torch.float32))


class _Form(NamedTuple):
    """What a gradient looks like. Kept in place of the tensor, which may change before the backward pass."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: Tensor) -> _Form:
        return cls(tensor.shape, tensor.dtype, tensor.device)

    def filled(self, gradient: Maybe) -> Tensor:
        if gradient is None:
            return torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        return dense(gradient)


def _own(layout: Layout, whole: Tensor) -> Tensor:
    return layout.take(whole, communicator.rank())


class _Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tag: Tag, layouts: Sequence[Layout], anchored: bool, *whole: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        parts = tuple(_own(layout, one).clone() for layout, one in zip(layouts, whole, strict=True))
        ctx.tag, ctx.layouts, ctx.forms = tag, layouts, [_Form.of(part) for part in parts]
        ctx.mark_non_differentiable(*(part for part in parts if not _flows(part.dtype)))
        return (*parts, _anchor(whole)) if anchored else parts

    @staticmethod
    def backward(ctx: Any, *gradients: Maybe) -> tuple[Maybe, ...]:
        wanted = [index for index in range(len(ctx.forms)) if ctx.needs_input_grad[3 + index]]
        mine = [ctx.forms[index].filled(gradients[index]) for index in wanted]
        there = _There.of(gradients[index] is not None for index in wanted)
        layouts = [ctx.layouts[index] for index in wanted]
        whole = _gather(ctx.tag.of(What.GRADIENTS), layouts, len(mine), there, *mine)
        found: list[Maybe] = [None] * len(ctx.forms)
        for place, index in enumerate(wanted):
            found[index] = whole[place] if there.is_anywhere(place) else None
        return (None, None, None, *found)


@dataclass
class _There:
    """Which tensors have a gradient, or want one, as bits: on this rank, and, once ranks have met, on any of them.

    Those that there are no more bits for, in long lists, have the last one together.
    """

    here: int
    anywhere: int = 0
    readings: Readings = field(default_factory=Readings)
    reached: int = 0

    @classmethod
    def of(cls, there: Iterable[bool]) -> _There:
        here = 0
        for index, one in enumerate(there):
            here |= int(one) << min(index, _LAST_BIT)
        return cls(here)

    def met(self, received: Received) -> None:
        self.readings.everyone = received.read
        for one in received.flags:
            self.anywhere |= one

    def is_anywhere(self, index: int) -> bool:
        return bool(self.anywhere >> min(index, _LAST_BIT) & 1)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tag: Tag, layouts: Sequence[Layout], count: int, there: _There, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.tag, ctx.layouts, ctx.anchors = tag, layouts, tensors[count:]
        parts = [tensor.contiguous() for tensor in tensors[:count]]
        shapes = [layout.shapes(part.shape) for layout, part in zip(layouts, parts, strict=True)]
        received = exchange(tag, parts, shapes, there.here, there.readings.words, there.reached)
        there.met(received)
        whole = tuple(layout.join(parts) for layout, parts in zip(layouts, received.parts, strict=True))
        still = [index for index, one in enumerate(whole) if not (_flows(one.dtype) and there.is_anywhere(index))]
        ctx.mark_non_differentiable(*(whole[index] for index in still))
        return whole

    @staticmethod
    def backward(ctx: Any, *gradients: Maybe) -> tuple[Maybe, ...]:
        there = [index for index, one in enumerate(gradients) if one is not None]
        layouts = [ctx.layouts[index] for index in there]
        parts, _ = split(ctx.tag, layouts, [one for one in gradients if one is not None], anchored=False)
        found: list[Maybe] = [None] * len(gradients)
        for index, part in zip(there, parts, strict=True):
            found[index] = part
        return (None, None, None, None, *found, *[torch.zeros_like(anchor) for anchor in ctx.anchors])


@dataclass
class Copied:
    """A group of copies. `tag` says in which collective their gradients are summed."""

    tag: Tag
    #: Of the latest sum: what the gradients are on all ranks together.
    kinds: list[Kind] = field(default_factory=list)


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, copied: Copied, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.copied, ctx.forms = copied, [_Form.of(tensor) for tensor in tensors]
        return (*(tensor.detach() for tensor in tensors), _anchor(tensors))

    @staticmethod
    def backward(ctx: Any, *gradients: Maybe) -> tuple[Maybe, ...]:
        wanted = [index for index in range(len(ctx.forms)) if ctx.needs_input_grad[1 + index]]
        mine = [gradients[index] for index in wanted]
        dense = [ctx.forms[index].filled(gradient) for index, gradient in zip(wanted, mine, strict=True)]
        kinds = [Kind(gradient is not None, _is_of_rows(gradient)) for gradient in mine]
        sum_all = _sum_all if torch.is_grad_enabled() else _summed
        sums = _of_rows(ctx.copied, sum_all(ctx.copied, kinds, *dense), mine) if mine else []
        found: list[Maybe] = [None] * len(ctx.forms)
        for index, total, kind in zip(wanted, sums, ctx.copied.kinds, strict=True):
            found[index] = total if kind.is_there else None
        return (None, *found)


def _is_of_rows(gradient: Maybe) -> bool:
    """Whether it is sparse as an embedding's: some rows of it are there."""
    return gradient is not None and gradient.is_sparse and gradient.sparse_dim() == 1


def _of_rows(copied: Copied, sums: Sequence[Tensor], mine: Sequence[Maybe]) -> list[Tensor]:
    """The sums, of which those of sparse gradients have the rows that any rank has: what is there at all decides in
    optimizers, a row of zeros too. A collective if there are such; all ranks know that from the sums."""
    found = list(sums)
    sparse = [index for index, kind in enumerate(copied.kinds) if kind.is_sparse]
    if not sparse:
        return found
    touched = [sums[index].new_zeros(len(sums[index])) for index in sparse]
    for rows, gradient in zip(touched, (mine[index] for index in sparse), strict=True):
        if gradient is not None:
            rows[gradient.coalesce().indices()[0]] = 1
    anywhere, _ = sum_in_buckets(copied.tag, touched, [Kind()] * len(touched))
    for index, rows in zip(sparse, anywhere, strict=True):
        which = rows.nonzero().T
        values = sums[index].index_select(0, which[0])
        found[index] = torch.sparse_coo_tensor(
            which, values, sums[index].shape, is_coalesced=True, check_invariants=False
        )
    return found


def _summed(copied: Copied, kinds: list[Kind], *terms: Tensor) -> tuple[Tensor, ...]:
    sums, copied.kinds = sum_in_buckets(copied.tag, terms, kinds)
    return tuple(sums)


class _SumAll(torch.autograd.Function):
    """The sums over the ranks of what each has of a copy. They are alike on all ranks: backward is a copy again."""

    @staticmethod
    def forward(ctx: Any, copied: Copied, kinds: list[Kind], *terms: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.copied = copied
        return _summed(copied, kinds, *terms)

    @staticmethod
    def backward(ctx: Any, *gradients: Maybe) -> tuple[Maybe, ...]:
        there = [index for index, one in enumerate(gradients) if one is not None]
        *copies, _ = _copy(Copied(ctx.copied.tag), *[gradients[index] for index in there])
        found: list[Maybe] = [None] * len(gradients)
        for index, one in zip(there, copies, strict=True):
            found[index] = one
        return (None, None, *found)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tag: Tag, term: Tensor) -> Tensor:
        ctx.tag = tag
        (parts,) = exchange(tag, [term], [[term.shape] * communicator.world_size()]).parts
        return torch.stack(parts).sum(0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Maybe, ...]:
        return None, _sum(ctx.tag, gradient)


_split: Callable[..., tuple[Tensor, ...]] = _Split.apply
_gather: Callable[..., tuple[Tensor, ...]] = _Gather.apply
_copy: Callable[..., tuple[Tensor, ...]] = _Copy.apply
_sum_all: Callable[..., tuple[Tensor, ...]] = _SumAll.apply
_sum: Callable[..., Tensor] = _Sum.apply


def _anchor(tensors: Sequence[Tensor]) -> Tensor:
    """A zero, of a dtype that gradients flow through."""
    flowing = [one for one in tensors if _flows(one.dtype)]
    return torch.zeros((), dtype=flowing[0].dtype, device=flowing[0].device)


def _flows(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex
