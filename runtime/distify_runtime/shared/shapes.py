"""The shapes of what ranks gather: exchanged once for each size of the arguments, and whenever some rank has others.

Every rank knows by them how long the message of outputs is, and that its part is one: a layer that counts samples, or
squeezes a batch of one, has on one rank what another has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from distify_runtime import communicator
from distify_runtime.shared.layouts import Layout
from distify_runtime.shared.messages import Station, Tag, What, exchange

#: Of one tensor, as numbers: its dtype, and its sizes.
Shape = tuple[int, ...]
_DTYPES = sorted({one for one in vars(torch).values() if isinstance(one, torch.dtype)}, key=str)
_MOST_DIMS = 16


class Surprise(Exception):
    """The parts go together in no way that the plan knows. Raised on every rank; says of which output, in words."""


def shape_of(tensor: Tensor) -> Shape:
    return _DTYPES.index(tensor.dtype), *tensor.shape


def told(shape: Shape) -> str:
    return f"{shape[1:]}"


@dataclass(frozen=True)
class Agreed:
    """`shapes[r]`: those of rank r's parts. `station`: where those that are sent are exchanged."""

    shapes: list[list[Shape]]
    layouts: list[Layout]
    station: Station

    def fits(self, mine: Sequence[Tensor]) -> bool:
        return [shape_of(one) for one in mine] == self.shapes[communicator.rank()]


def station(planned: int) -> Station:
    """Where ranks exchange the shapes of so many tensors."""
    table = _table(planned)
    return Station.of([table], [[table.shape] * communicator.world_size()])


def exchanged(tag: Tag, mine: Sequence[Tensor], planned: int, reached: int) -> list[list[Shape]]:
    """Each rank's shapes of as many tensors as were planned. A collective.

    reached: what has to be the same on all ranks. Raises Surprise where there are others, Misfit where it is not.
    """
    table = _table(planned)
    table[0, 0] = len(mine)
    for row, one in zip(table[1:], mine, strict=False):
        words = (one.dim(), *shape_of(one))
        row[: len(words)] = torch.tensor(words, device="cpu")
    shapes = [[table.shape] * communicator.world_size()]
    (everyone,) = exchange(tag.of(What.SHAPES), [table], shapes, besides=reached).parts
    counts = [int(one[0, 0]) for one in everyone]
    if any(count != planned for count in counts):
        raise Surprise(f"the ranks have {', '.join(map(str, counts))} tensors, and had {planned}")
    return [[tuple(words[: 1 + dims]) for dims, *words in one[1:].tolist()] for one in everyone]


def _table(planned: int) -> Tensor:
    return torch.zeros(planned + 1, 2 + _MOST_DIMS, dtype=torch.int64, device="cpu")
