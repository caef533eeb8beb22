"""The shares of one evaluation batch, put together again."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from distify_runtime import communicator
from distify_runtime.environment import is_alone, rank
from distify_runtime.meeting import collective
from distify_runtime.per_sample import Leaf, is_array, is_per_sample
from distify_runtime.samplers import ShardedBatchSampler


@dataclass(frozen=True)
class _Layout:
    """What the other ranks must know of a tensor to read its bytes."""

    dtype: torch.dtype
    shape: torch.Size

    @property
    def nbytes(self) -> int:
        return self.shape.numel() * self.dtype.itemsize


@collective
def gather_batch(loader: DataLoader[Any], *values: Any, several_rows: bool = False) -> Any:
    """The whole batch of each value, in the dataset's order, on every rank. A collective.

    `loader` is the one being looped over; its batch sampler is a `ShardedBatchSampler`. A value holds this
    rank's share: a tensor or array with one row per sample, or a list with one element per sample (none a tensor).
    Tuples, dicts and lists of tensors are gathered element by element. Tensors come back detached. One value
    in, one out; several in, a tuple out; in a world of one the values themselves.
    `several_rows`: each tensor may have several rows for each sample, as many for all, those of a sample together
    (frames that were folded into the batch); they come in the order of the samples.
    Raises TypeError and ValueError for what does not hold one row per sample.
    """
    if not is_alone():
        shares, rows = _current_shares(loader)
        leaves = [leaf for value in values for leaf in _leaves(value)]
        for leaf in leaves:
            _check_rows(leaf, rows, several_rows)
        gathered = _gather(leaves, shares)
        values = tuple(_rebuild(value, gathered) for value in values)
    return values[0] if len(values) == 1 else values


def _current_shares(loader: DataLoader[Any]) -> tuple[list[int], int]:
    """How many samples of the current batch each rank contributes, and how many this rank has loaded."""
    sampler = getattr(loader, "batch_sampler", None)
    if not isinstance(sampler, ShardedBatchSampler) or not getattr(loader, "in_order", True):
        raise TypeError("gather_batch needs a ShardedBatchSampler as its loader's batch_sampler, and in_order")
    shares = [len(share) for share in sampler.shares(sampler.current_batch(loader))]
    return shares, max(1, shares[rank()])


def _leaves(value: Any) -> Iterator[Leaf]:
    """The tensors, arrays and per-sample lists or tuples in a value, from left to right."""
    if _is_leaf(value):
        yield value
        return
    for element in _elements(value):
        yield from _leaves(element)


def _rebuild(value: Any, leaves: Iterator[Any]) -> Any:
    """A copy of `value` with its leaves replaced, from left to right."""
    if _is_leaf(value):
        return next(leaves)
    elements = [_rebuild(element, leaves) for element in _elements(value)]
    if isinstance(value, dict):
        rebuilt = copy.copy(value)  # also an OrderedDict, or a model's output class
        for key, element in zip(value, elements, strict=True):
            rebuilt[key] = element
        return rebuilt
    return type(value)(*elements) if hasattr(value, "_fields") else type(value)(elements)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, Tensor) or is_array(value) or is_per_sample(value)


def _elements(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, list) and any(isinstance(element, Tensor) for element in value):
        return value
    if isinstance(value, list):  # one per sample, or one per output of the model? Either would be a guess
        raise TypeError("gather_batch cannot gather a list of collections of tensors: gather each one alone")
    raise TypeError(f"gather_batch gathers tensors, and lists, tuples and dicts of them, no {type(value).__name__}")


def _check_rows(leaf: Any, rows: int, several: bool) -> None:
    if is_array(leaf):
        found, described = (leaf.shape[0] if leaf.ndim else -1), f"an array of shape {leaf.shape}"
    elif not isinstance(leaf, Tensor):
        found, described = len(leaf), f"a {type(leaf).__name__} of {len(leaf)} elements"
    else:
        found, described = (leaf.shape[0] if leaf.dim() else -1), f"a tensor of shape {tuple(leaf.shape)}"
    folded = several and isinstance(leaf, Tensor) and found > 0 and found % rows == 0
    if found != rows and not folded:
        raise ValueError(
            f"gather_batch got {described}, not one row for each of this rank's {rows} samples of the batch: "
            f"gather it before it is reshaped, filtered or reduced"
        )


def _gather(leaves: list[Leaf], shares: list[int]) -> Iterator[Leaf]:
    """Every leaf, put together from all ranks that have a share of the batch."""
    everyone = communicator.all_gather_object([_layout(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves])
    contributors = [index for index, samples in enumerate(shares) if samples]
    for leaf, described in zip(leaves, zip(*everyone, strict=True), strict=True):
        if isinstance(leaf, Tensor):
            _check_alike(described, shares)
            parts = _all_gather(leaf, described)
            yield torch.cat([parts[index] for index in contributors])
        elif is_array(leaf):
            yield _rows_of([described[index] for index in contributors])
        else:
            whole = [element for index in contributors for element in described[index]]
            yield tuple(whole) if isinstance(leaf, tuple) else whole


def _rows_of(arrays: list[Any]) -> Any:
    if len({array.shape[1:] for array in arrays}) > 1:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(f"gather_batch got shapes {shapes} by rank: pad the samples to one size over all batches")
    return sys.modules["numpy"].concatenate(arrays)


def _check_alike(layouts: tuple[_Layout, ...], shares: list[int]) -> None:
    """All samples of a batch have as many rows, on whichever rank: one rank's count says nothing of another's."""
    rows = [layout.shape[0] // max(1, samples) for layout, samples in zip(layouts, shares, strict=True)]
    if len(set(rows)) > 1:
        raise ValueError(
            f"gather_batch got {', '.join(map(str, rows))} rows for each sample by rank: pad them to one size"
        )


def _layout(tensor: Tensor) -> _Layout:
    if tensor.layout is not torch.strided:
        raise TypeError(f"gather_batch cannot gather {tensor.layout} tensors: convert it with to_dense() first")
    return _Layout(tensor.dtype, tensor.shape)


def _all_gather(tensor: Tensor, layouts: tuple[_Layout, ...]) -> list[Tensor]:
    """What each rank has in this tensor's place: sent as bytes, which suits any dtype and unequal sizes."""
    if len({(layout.dtype, layout.shape[1:]) for layout in layouts}) > 1:
        shapes = ", ".join(str(tuple(layout.shape)) for layout in layouts)
        raise ValueError(f"gather_batch got shapes {shapes} by rank: pad the samples to one size over all batches")
    sent = torch.zeros(max(layout.nbytes for layout in layouts), dtype=torch.uint8, device=tensor.device)
    mine = tensor.detach().reshape(-1).contiguous().view(torch.uint8)  # of a column, reshape keeps the gaps
    sent[: len(mine)] = mine
    received = [torch.empty_like(sent) for _ in layouts]
    communicator.all_gather(received, sent)
    return [
        data[: layout.nbytes].view(layout.dtype).view(layout.shape)
        for data, layout in zip(received, layouts, strict=True)
    ]
