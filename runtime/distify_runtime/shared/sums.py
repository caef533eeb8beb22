"""Gradients summed over the ranks, in buckets of which several are under way at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from distify_runtime import communicator
from distify_runtime.communicator import Pending
from distify_runtime.shared import costs
from distify_runtime.shared.messages import RanksParted, Tag

#: Bytes that travel in one collective, as in DistributedDataParallel.
_BUCKET_BYTES = 25 * 2**20
_MARKS = 2  # words at the head of the first bucket: one number that all ranks must have, and its square
_MODULUS = 1021  # the sum of the squares of as many ranks as there are is still exact in single precision


class Kind(NamedTuple):
    """Of a term: whether there is anything of it, else it is zeros; and whether it is dense for the sum alone."""

    is_there: bool = True
    is_sparse: bool = False


@torch.no_grad()
def sum_in_buckets(tag: Tag, terms: Sequence[Tensor], kinds: Sequence[Kind]) -> tuple[list[Tensor], list[Kind]]:
    """The sums over the ranks, of which a kind is sparse where all ranks that have anything of it have it so.

    A collective. kinds[i]: of this rank's i-th term. Half precision is summed in single precision.
    """
    mark = hash(tuple(tag.words())) % _MODULUS
    held = [float(mark), float(mark * mark), *(float(one) for kind in kinds for one in kind)]
    is_beside = bool(terms) and communicator.tells_beside(terms[0])
    beside = torch.tensor(held if is_beside else [], dtype=torch.float64, device="cpu")
    told = communicator.start_all_reduce(beside) if is_beside else None
    started: list[tuple[list[int], int, Tensor, Pending]] = []
    for bucket in _buckets(terms):
        dtype = torch.promote_types(terms[bucket[0]].dtype, torch.float32)
        head = torch.tensor([] if started or told else held, dtype=dtype, device=terms[bucket[0]].device)
        flat = torch.cat([head, *(terms[index].reshape(-1) for index in bucket)]).to(dtype)
        started.append((bucket, head.numel(), flat, communicator.start_all_reduce(flat)))
    sums: list[Tensor] = list(terms)
    if told:
        _wait(tag, told)
    counts: list[float] = beside.tolist()
    for bucket, before, flat, pending in started:
        with costs.of_meeting(costs.SUMS):
            _wait(tag, pending)
        counts = counts or (flat.real if flat.is_complex() else flat)[:before].tolist()
        _, *pieces = torch.split(flat, [before, *(terms[index].numel() for index in bucket)])
        for index, piece in zip(bucket, pieces, strict=True):
            sums[index] = piece.to(terms[index].dtype).view(terms[index].shape)
    _check_marks(tag, mark, counts[:_MARKS])
    there, sparse = counts[_MARKS::2], counts[_MARKS + 1 :: 2]
    return sums, [Kind(count > 0, 0 < other == count) for count, other in zip(there, sparse, strict=True)]


def _wait(tag: Tag, pending: Pending) -> None:
    try:
        pending.wait()
    except RuntimeError as error:
        raise RanksParted(
            f"distify: rank {communicator.rank()} sums {tag.gradients}, and some other rank does not: {error}"
        ) from error


def _check_marks(tag: Tag, mark: int, found: list[float]) -> None:
    """All ranks have this mark if its mean and the mean of its square are its own."""
    ranks = communicator.world_size()
    if found != [float(mark * ranks), float(mark * mark * ranks)]:
        raise RanksParted(
            f"distify: the ranks have come apart; rank {communicator.rank()} sums {tag.gradients}, and some other rank "
            "sums something else"
        )


def _buckets(terms: Sequence[Tensor]) -> Iterator[list[int]]:
    """Indices of terms that travel together: of one dtype and device, about 25 MiB each."""
    open_: dict[tuple[torch.dtype, torch.device], list[int]] = {}
    sizes: dict[tuple[torch.dtype, torch.device], int] = {}
    for index, term in enumerate(terms):
        kind = (term.dtype, term.device)
        open_.setdefault(kind, []).append(index)
        sizes[kind] = sizes.get(kind, 0) + term.numel() * term.element_size()
        if sizes[kind] >= _BUCKET_BYTES:
            yield open_.pop(kind)
            del sizes[kind]
    yield from open_.values()
