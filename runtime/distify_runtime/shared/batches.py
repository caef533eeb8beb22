"""What of the arguments of a call is the batch: looked for in all of its tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from distify_runtime.shared.layouts import Layout, Rows

_MOST = 16  # that are tried: each that does not do costs a pass
_ORDERS = ((0, 1), (1, 0))  # which dimension of a tensor is taken where both have the size


@dataclass(frozen=True)
class Batch:
    """Where the batch is in the arguments: the dimension of each tensor that has one, by the tensor's index."""

    dims: dict[int, int]

    def samples(self, tensors: Sequence[Tensor]) -> int:
        index, dim = next(iter(self.dims.items()))
        return tensors[index].shape[dim]

    def fits(self, tensors: Sequence[Tensor]) -> bool:
        """Whether all have as many samples. What once had a batch's size by chance has another one later."""
        return len({tensors[index].shape[dim] for index, dim in self.dims.items()}) == 1

    def layouts(self, counts: tuple[int, ...]) -> dict[int, Layout]:
        return {index: Rows(dim, counts) for index, dim in self.dims.items()}


def batches(tensors: Sequence[Tensor]) -> list[Batch]:
    """What the batch could be, the likeliest first: a dimension of the first tensor, then one of any other.

    What comes first may be for all samples: a graph, positions, a mask.
    """
    found: list[Batch] = []
    for dims in _possible([tuple(one.shape) for one in tensors]):
        if Batch(dims) not in found:
            found.append(Batch(dims))
    return found[:_MOST]


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
