"""How the ranks' parts of a tensor make up the whole one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from distify_runtime import communicator

#: As many numbers are compared as they are.
_FEW = 64
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Layout(ABC):
    """`take` and `join` are each other's adjoint: the one is the backward pass of the other."""

    @abstractmethod
    def take(self, whole: Tensor, rank: int) -> Tensor:
        """The part of this rank."""

    @abstractmethod
    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The whole tensor, of all ranks' parts."""

    @abstractmethod
    def shapes(self, mine: Sequence[int]) -> list[Sequence[int]]:
        """The shape of each rank's part, of which this rank's is `mine`."""


@dataclass(frozen=True)
class Rows(Layout):
    """Rank r has `counts[r]` samples along `dim`, in the order of the ranks.

    A dimension may be folded: (outer, samples, inner) in one, as `view(steps * batch, -1)` makes of (steps, batch).
    """

    dim: int
    counts: tuple[int, ...]
    outer: int = 1

    def take(self, whole: Tensor, rank: int) -> Tensor:
        inner = whole.shape[self.dim] // max(self.outer * sum(self.counts), 1)
        if self.outer == 1:
            return whole.narrow(self.dim, sum(self.counts[:rank]) * inner, self.counts[rank] * inner)
        unfolded = _unfolded(whole, self.dim, self.outer)
        begin = sum(self.counts[:rank]) * inner
        return unfolded.narrow(self.dim + 1, begin, self.counts[rank] * inner).flatten(self.dim, self.dim + 1)

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        if self.outer == 1:
            return torch.cat(list(parts), self.dim)
        unfolded = [_unfolded(part, self.dim, self.outer) for part in parts]
        return torch.cat(unfolded, self.dim + 1).flatten(self.dim, self.dim + 1)

    def shapes(self, mine: Sequence[int]) -> list[Sequence[int]]:
        own = self.counts[communicator.rank()]
        per_sample = mine[self.dim] // own if own else 1  # a rank without any: what is counted are entries
        return [[*mine[: self.dim], per_sample * count, *mine[self.dim + 1 :]] for count in self.counts]


@dataclass(frozen=True)
class Owned(Layout):
    """One rank has all of it, and the others an empty tensor: an entry of a list of samples."""

    owner: int
    shape: tuple[int, ...]
    ranks: int
    blank: tuple[int, ...] = (0,)  # the others' shape

    def take(self, whole: Tensor, rank: int) -> Tensor:
        return whole if rank == self.owner else whole.new_empty(self.blank)

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        return parts[self.owner]

    def shapes(self, mine: Sequence[int]) -> list[Sequence[int]]:
        return [self.shape if rank == self.owner else self.blank for rank in range(self.ranks)]


@dataclass(frozen=True)
class Weighted(Layout):
    """The whole is the sum of the ranks' values, each by its weight: a mean, a sum, or what is alike on all ranks."""

    weights: tuple[float, ...]

    def take(self, whole: Tensor, rank: int) -> Tensor:
        return whole * self.weights[rank]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        wide = torch.promote_types(parts[0].dtype, torch.float32)
        terms = [part.to(wide) * weight for part, weight in zip(parts, self.weights, strict=True)]
        return torch.stack(terms).sum(0).to(parts[0].dtype)

    def shapes(self, mine: Sequence[int]) -> list[Sequence[int]]:
        return [mine] * len(self.weights)


class Differ(Exception):
    """What all ranks are to have alike is not the same on all of them. Raised on every rank."""


class Alike(Layout):
    """All ranks have the same, to the last bit."""

    def take(self, whole: Tensor, rank: int) -> Tensor:
        return whole

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Raises Differ."""
        if any(not torch.equal(_bytes(part), _bytes(parts[0])) for part in parts):
            raise Differ
        return parts[0]

    def shapes(self, mine: Sequence[int]) -> list[Sequence[int]]:
        return [mine] * communicator.world_size()


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().resolve_conj().contiguous().reshape(-1).view(torch.uint8)


def alike(tensor: Tensor) -> Tensor:
    """Few numbers that stand for it where ranks compare what they have alike."""
    tensor = tensor.detach()
    if tensor.numel() <= _FEW:
        return tensor
    real = (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).contiguous()
    words = real.view(_BITS[real.element_size()]).to(torch.int64)  # sums of integers do not go by their order
    return torch.stack([words.sum(), words.square().sum()])


def _unfolded(tensor: Tensor, dim: int, outer: int) -> Tensor:
    """Shape (…, outer * rest, …) to (…, outer, rest, …)."""
    return tensor.reshape(*tensor.shape[:dim], outer, tensor.shape[dim] // outer, *tensor.shape[dim + 1 :])
