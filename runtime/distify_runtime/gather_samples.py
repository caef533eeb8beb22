"""Samples of a training step, put together on every rank, with a way back for their gradients."""

from __future__ import annotations

import copy
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from distify_runtime import communicator
from distify_runtime.environment import is_alone, rank, world_size
from distify_runtime.meeting import collective
from distify_runtime.per_sample import Leaf, is_array, is_per_sample

_NUMBERS = "biufc"  # kinds of arrays that torch has, too


@dataclass(frozen=True)
class _Order:
    """How the ranks' samples lie in the batch that one process would have."""

    dim: int
    views: int  # blocks of all samples, one behind the other
    rows: int  # of each sample, one behind the other
    parts: bool  # each rank has a piece of the batch; else every world-size-th sample

    def whole(self, everyone: Tensor) -> Tensor:
        """[ranks, rows, …] of each rank's rows -> [ranks * rows, …]"""
        ranks, rows = everyone.shape[:2]
        blocks = everyone.reshape(ranks, self.views, self.samples(rows), self.rows, *everyone.shape[2:])
        blocks = blocks.transpose(0, 1)  # [views, ranks, samples, rows, …]
        if not self.parts:
            blocks = blocks.transpose(1, 2)
        return blocks.reshape(ranks * rows, *everyone.shape[2:])

    def share(self, whole: Tensor, ranks: int, of: int) -> Tensor:
        """[ranks * rows, …] -> [rows, …] of one rank."""
        samples = self.samples(whole.shape[0]) // ranks
        shape = (ranks, samples) if self.parts else (samples, ranks)
        blocks = whole.reshape(self.views, *shape, self.rows, *whole.shape[1:])
        return blocks.select(1 if self.parts else 2, of).reshape(whole.shape[0] // ranks, *whole.shape[1:])

    def samples(self, rows: int) -> int:
        return rows // (self.views * self.rows)

    def together(self, everyone: list[Any]) -> list[Any]:
        """The same for lists."""
        entries = [entry for share in everyone for entry in share]
        numbers = torch.arange(len(entries), device="cpu").view(len(everyone), -1)
        return [entries[number] for number in self.whole(numbers)]


@collective
def gather_samples(
    *values: Any, dim: int = 0, views: int = 1, samples: int = 0, by_step: bool = False, parts: bool = False
) -> Any:
    """The whole batch of each value, in the order that one process would have it, on every rank. A collective.

    A value holds this rank's share: a tensor or numpy array with the samples along `dim`, or a list with one element
    per sample (none a tensor), or a tuple with one text per sample. Other tuples, dicts and lists of tensors are
    gathered element by element; numbers and None stay.
    views: the number of blocks along `dim` that each hold all samples, as after `torch.cat([one, other])`.
    samples: how many samples this rank has, where each may have several rows along `dim`: one behind the other, as in
    a flattened [samples, steps, …], or with `by_step` all those of a step, as in a flattened [steps, samples, …].
    parts: the share is a piece of the batch (`shard_batch`); else every world-size-th sample (`DistributedSampler`).

    Gradients flow back: each rank's loss is that of the whole batch, so the sum over ranks of what comes back,
    averaged by DistributedDataParallel, is the gradient of one process; for parameters that are used after the
    gathering, too. One value in, one out; several in, a tuple out; in a world of one the values themselves.
    Raises ValueError where the ranks' shares differ in shape, TypeError for what cannot be gathered.
    """
    if not is_alone():
        leaves = [leaf for value in values for leaf in _leaves(value)]
        orders = [_order(leaf, dim, views, samples, by_step, parts) for leaf in leaves]
        _check(leaves, orders)
        gathered = iter(list(map(_gather, leaves, orders)))
        values = tuple(_rebuild(value, gathered) for value in values)
    return values[0] if len(values) == 1 else values


def _order(leaf: Leaf, dim: int, views: int, samples: int, by_step: bool, parts: bool) -> _Order:
    several = _rows(leaf, dim) // samples if samples else 1
    if samples and (several < 1 or _rows(leaf, dim) % samples):
        raise ValueError(
            f"gather_samples got {_text(leaf)}, which does not hold as many rows for each of {samples} samples along "
            f"dimension {dim}: gather it before it is reshaped, filtered or reduced"
        )
    return _Order(dim, views * several, 1, parts) if by_step else _Order(dim, views, several, parts)


class _GatherSamples(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, share: Tensor, order: _Order) -> Tensor:
        ctx.order = order
        return order.whole(_all_gather(share.movedim(order.dim, 0))).movedim(0, order.dim).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        order: _Order = ctx.order
        exact = gradient.dtype.itemsize >= 4
        total = (
            (gradient if exact else gradient.float()).movedim(order.dim, 0).clone(memory_format=torch.contiguous_format)
        )
        communicator.all_reduce(torch.view_as_real(total) if total.is_complex() else total)
        own = order.share(total, world_size(), rank()).movedim(0, order.dim)
        return own.to(gradient.dtype).contiguous(), None


def _all_gather(share: Tensor) -> Tensor:
    """[rows, …] of each rank -> [ranks, rows, …]; sent as bytes, which suits any dtype."""
    sent = share.detach().contiguous()
    everyone = sent.new_empty(world_size(), *sent.shape)
    parts = [part.reshape(-1).view(torch.uint8) for part in everyone.unbind(0)]
    communicator.all_gather(parts, sent.reshape(-1).view(torch.uint8))
    return everyone


def _gather(leaf: Leaf, order: _Order) -> Any:
    if isinstance(leaf, Tensor):
        return _GatherSamples.apply(leaf, order)  # type: ignore[no-untyped-call]
    whole = order.together(communicator.all_gather_object(leaf))
    return tuple(whole) if isinstance(leaf, tuple) else whole


# ---- what all ranks must agree on


def _check(leaves: list[Leaf], orders: list[_Order]) -> None:
    """Ranks that send different things would wait for ever, or read each other's bytes as something else."""
    described = list(map(_described, leaves, orders))
    sizes = sorted({order.samples(_rows(leaf, order.dim)) for leaf, order in zip(leaves, orders, strict=True)})
    if len(sizes) > 1:
        raise ValueError(
            f"gather_samples got {' and '.join(map(str, sizes))} samples in one batch ({', '.join(described)}): "
            f"gather values before they are reshaped, filtered or reduced"
        )
    digest = torch.tensor(zlib.crc32(repr(described).encode()), device=_where(leaves))
    everyone = [torch.empty_like(digest) for _ in range(world_size())]
    communicator.all_gather(everyone, digest)
    if len({int(one) for one in everyone}) > 1:
        shares = communicator.all_gather_object(described)
        ranks = "; ".join(f"rank {number}: {', '.join(share)}" for number, share in enumerate(shares))
        raise ValueError(f"gather_samples needs shares of one shape: pad the samples to one size ({ranks})")


def _where(leaves: list[Leaf]) -> torch.device:
    """The device that these are sent from: the group has a backend for each kind."""
    return next((leaf.device for leaf in leaves if isinstance(leaf, Tensor)), torch.device("cpu"))


def _rows(leaf: Leaf, dim: int) -> int:
    if not isinstance(leaf, Tensor):
        return len(leaf)
    return leaf.shape[dim] if leaf.dim() > dim else -1


def _text(leaf: Leaf) -> str:
    if not isinstance(leaf, Tensor):
        return f"a {type(leaf).__name__} of {len(leaf)}"
    return f"{str(leaf.dtype).removeprefix('torch.')} {tuple(leaf.shape)}"


def _described(leaf: Leaf, order: _Order) -> str:
    text, rows = _text(leaf), _rows(leaf, order.dim)
    if isinstance(leaf, Tensor):
        if leaf.layout is not torch.strided:
            raise TypeError(f"gather_samples cannot gather {leaf.layout} tensors: convert it with to_dense() first")
        text += " with gradients" if leaf.requires_grad and torch.is_grad_enabled() else ""
    if rows < 0 or rows % (order.views * order.rows):
        raise ValueError(
            f"gather_samples got {text}, which does not hold {order.views} row(s) for each sample along "
            f"dimension {order.dim}: gather it before it is reshaped, filtered or reduced"
        )
    return text


# ---- nested values


def _leaves(value: Any) -> Iterator[Leaf]:
    """The tensors and per-sample lists in a value, from left to right."""
    if is_array(value):
        yield torch.as_tensor(value) if value.dtype.kind in _NUMBERS else value.tolist()
    elif isinstance(value, Tensor) or is_per_sample(value):
        yield value
    else:
        for element in _elements(value):
            yield from _leaves(element)


def _rebuild(value: Any, leaves: Iterator[Any]) -> Any:
    """A copy of `value` with its leaves replaced, from left to right."""
    if is_array(value):
        whole = next(leaves)
        return whole.numpy() if isinstance(whole, Tensor) else sys.modules["numpy"].array(whole, dtype=value.dtype)
    if isinstance(value, Tensor) or is_per_sample(value):
        return next(leaves)
    elements = [_rebuild(element, leaves) for element in _elements(value)]
    if isinstance(value, dict):
        rebuilt = copy.copy(value)  # also an OrderedDict, or a model's output class
        for key, element in zip(value, elements, strict=True):
            rebuilt[key] = element
        return rebuilt
    if not isinstance(value, (tuple, list)):
        return value
    return type(value)(*elements) if hasattr(value, "_fields") else type(value)(elements)


def _elements(value: Any) -> list[Any]:
    if value is None or isinstance(value, (bool, int, float, str)):
        return []
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (tuple, list)):
        return list(value)
    kind = type(value).__name__
    raise TypeError(f"gather_samples gathers tensors, arrays, and lists, tuples and dicts of them, no {kind}")
