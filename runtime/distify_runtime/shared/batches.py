"""What of the arguments of a call is the batch: looked for in all of its tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from distify_runtime.shared.entries import Entries, cut, lists_in
from distify_runtime.shared.layouts import Layout, Owned, Rows
from distify_runtime.shared.structure import rebuilt

_MOST = 16  # that are tried: each that does not do costs a pass
_OF_FIRST = 8  # of these are of the first tensor


@dataclass(frozen=True)
class Batch:
    """Where the batch is in the arguments: the dimension of each tensor that has one, by the tensor's index."""

    dims: dict[int, int]
    lists: tuple[Entries, ...] = ()  # of samples, each a list's entry

    def samples(self, tensors: Sequence[Tensor]) -> int:
        if self.lists:
            return len(self.lists[0])
        index, dim = next(iter(self.dims.items()))
        return tensors[index].shape[dim]

    def fits(self, tensors: Sequence[Tensor]) -> bool:
        """Whether all have as many samples. What once had a batch's size by chance has another one later."""
        sizes = {len(one) for one in self.lists}
        return len(sizes | {tensors[index].shape[dim] for index, dim in self.dims.items()}) == 1

    def layouts(self, counts: tuple[int, ...], tensors: Sequence[Tensor]) -> dict[int, Layout]:
        found: dict[int, Layout] = {index: Rows(dim, counts) for index, dim in self.dims.items()}
        owners = [rank for rank, count in enumerate(counts) for _ in range(count)]
        for one in self.lists:
            for owner, span in zip(owners, one.tensors, strict=True):
                found |= {index: Owned(owner, tuple(tensors[index].shape), len(counts)) for index in span}
        return found

    def part(self, value: Any, tensors: Sequence[Tensor], begin: int, end: int) -> Any:
        """Arguments with these tensors in them, and of lists of samples those from `begin` to `end`."""
        paths = [one.path for one in self.lists]
        gone = {
            index for one in self.lists for at, span in enumerate(one.tensors) if not begin <= at < end
            for index in span
        }  # fmt: skip
        left = (one for index, one in enumerate(tensors) if index not in gone)
        return rebuilt(cut(value, paths, slice(begin, end)), left)


def batches(value: Any, tensors: Sequence[Tensor]) -> list[Batch]:
    """What the batch could be in the arguments, the likeliest first.

    Lists of several sizes, a dimension of the first tensor, other lists, dimensions of other tensors: what comes first
    may be for all samples, as a graph, positions, a mask.
    """
    shapes = [tuple(one.shape) if one.layout is torch.strided else () for one in tensors]  # a graph is not cut
    lists, rows = list(_of_lists(value, shapes)), [Batch(dims) for dims in _possible(shapes)]
    ragged = [one for one in lists if any(_is_ragged(each, shapes) for each in one.lists)]
    found: list[Batch] = []
    for batch in (*ragged, *rows[:_OF_FIRST], *lists, *rows[_OF_FIRST:]):
        if batch not in found:
            found.append(batch)
    return found[:_MOST]


def _of_lists(value: Any, shapes: Sequence[tuple[int, ...]]) -> Iterator[Batch]:
    """Lists with one entry for each sample, and what has as many rows."""
    lists = list(lists_in(value))
    for size in dict.fromkeys(map(len, lists)):
        same = tuple(one for one in lists if len(one) == size)
        inside = {index for one in same for span in one.tensors for index in span}
        rows = _of_size(shapes, size, (0, 0), 0)
        yield Batch({index: dim for index, dim in rows.items() if index not in inside}, same)
        yield Batch({}, same)


def _is_ragged(entries: Entries, shapes: Sequence[tuple[int, ...]]) -> bool:
    return len({tuple(shapes[index] for index in span) for span in entries.tensors}) > 1


def _possible(shapes: Sequence[tuple[int, ...]]) -> Iterator[dict[int, int]]:
    anchors = [(index, dim) for index, shape in enumerate(shapes) for dim in range(min(2, len(shape)))]
    first = min((index for index, _ in anchors), default=0)
    of_first, others = ([one for one in anchors if (one[0] == first) is wanted] for wanted in (True, False))
    common = sorted(others, key=lambda one: -len(_of_size(shapes, shapes[one[0]][one[1]], (0, 1), first)))
    for index, dim in (*of_first, *common):
        size = shapes[index][dim]
        if size > 1:
            yield {index: dim} | _of_size(shapes, size, (dim, 1 - dim), first, index)
            yield {index: dim} | _of_size(shapes, size, (1 - dim, dim), first, index)
            yield {index: dim} | _of_size(shapes, size, (dim, 1 - dim), index, index)  # what is before has it by chance
            yield {index: dim}


def _of_size(
    shapes: Sequence[tuple[int, ...]], size: int, order: tuple[int, int], begin: int, but: int = -1
) -> dict[int, int]:
    """The tensors from `begin` on that have a dimension of this size, with the first one in `order`."""
    found = {}
    for index, shape in enumerate(shapes):
        dims = [dim for dim in order if dim < len(shape) and shape[dim] == size]
        if dims and index >= begin and index != but:
            found[index] = dims[0]
    return found
