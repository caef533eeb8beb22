"""How the tensors of an output come together, found by comparing the ranks' parts of one with the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from distify_runtime import communicator
from distify_runtime.shared import comparing
from distify_runtime.shared.layouts import Layout, Rows
from distify_runtime.shared.plans import Output


def output_of(parts: Sequence[Tensor], whole: Tensor, flows: bool, counts: tuple[int, ...]) -> Output | str:
    """parts: each rank's tensor; flows: whether gradients flow to it. Or why there is no way: it speaks to the user."""
    shapes = [tuple(part.shape) for part in parts]
    options = list(_options(shapes, whole, flows, counts))
    for output in options:
        layout = output.layout(counts, parts[communicator.rank()]) or _Same()
        if output.ragged:
            layout = Rows(output.dim, tuple(part.shape[output.dim] for part in parts))
        if comparing.is_equal(layout.join(parts), whole):
            return output
    told = f"a part of the batch gives shapes {', '.join(map(str, shapes))}, the whole one {tuple(whole.shape)}"
    if not options:
        return f"its outputs do not follow the batch: {told}"
    return "a part of the batch gives other values than the whole one: its samples depend on each other"


def _options(
    shapes: Sequence[tuple[int, ...]], whole: Tensor, flows: bool, counts: tuple[int, ...]
) -> Iterator[Output]:
    if any(len(shape) != whole.dim() for shape in shapes):
        return
    dims = [dim for dim in range(whole.dim()) if any(shape[dim] != whole.shape[dim] for shape in shapes)]
    if not dims:
        if not flows:
            yield Output(-2)
        if whole.dtype.is_floating_point or whole.dtype.is_complex:
            yield Output(-1)
        yield Output(-1, weight="sum")
    elif len(dims) == 1 and sum(shape[dims[0]] for shape in shapes) == whole.shape[dims[0]]:
        (dim,) = dims
        sizes = [shape[dim] for shape in shapes]
        if all(size * sum(counts) == count * whole.shape[dim] for size, count in zip(sizes, counts, strict=True)):
            yield Output(dim)
            if whole.shape[dim] > sum(counts):
                yield Output(dim, steps_first=True)
        else:
            yield Output(dim, ragged=True)


class _Same(Layout):
    def take(self, whole: Tensor, rank: int) -> Tensor:
        return whole

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        alike = all(torch.equal(part, parts[0]) for part in parts)
        return parts[0] if alike else torch.full_like(parts[0], 0)

    def shapes(self, mine: Sequence[int]) -> list[Sequence[int]]:
        return [mine]
