"""What every rank should hold alike, compared in the first calls and from time to time: batches, and losses."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from distify_runtime import accelerators, communicator
from distify_runtime.shared.messages import RanksParted, Tag, What, exchange, numbered
from distify_runtime.sparse import dense

_FIRST, _EVERY = 3, 100
#: On a GPU, what every rank computes by itself may be rounded another way on each.
_ROUNDING = 1e-4
#: Places that are told apart by their weights in a sum; a prime, which no size of a row divides.
_PLACES = 997

_losses = itertools.count(1)
_loss_number = -1


def is_compared(call: int) -> bool:
    """Whether it is the turn of this call, counted from 1."""
    return call <= _FIRST or call % _EVERY == 0


def check_arguments(tag: Tag, name: str, tensors: Sequence[Tensor]) -> None:
    """Raises RanksParted on all ranks where they are about to share different batches. A collective."""
    nothing = torch.zeros(0, 2, dtype=torch.float64, device="cpu")
    sums = torch.stack([_sums(one) for one in tensors]) if tensors else nothing
    (everyone,) = exchange(tag.of(What.ARGUMENTS), [sums], [[sums.shape] * communicator.world_size()]).parts
    for index, tensor in enumerate(tensors):
        if not all(_is_alike(one[index], everyone[0][index], accelerators.has(tensor)) for one in everyone):
            raise RanksParted(
                f"distify: the ranks hold different batches: tensor {index + 1} of the arguments of {name} (call "
                f"{tag.call}) is not the same on all ranks. What makes it draws from random numbers of its own, or "
                "from something that differs between processes (time, a set's order, files that one rank writes): let "
                "rank 0 make it and give it to the others with `rt.from_main_process(...)`"
            )


def check_losses(roots: Sequence[Tensor]) -> None:
    """The same for what gradients are asked of, where it is one number. A collective."""
    global _loss_number
    call = next(_losses)
    scalars = [one.detach() for one in roots if one.numel() == 1]
    if not is_compared(call) or len(scalars) != len(roots):
        return
    if _loss_number < 0:
        _loss_number = numbered("the training")
    values = torch.stack([one.reshape(()).double().cpu() for one in scalars])
    tag = Tag(What.LOSS, _loss_number, call)
    (everyone,) = exchange(tag, [values], [[values.shape] * communicator.world_size()]).parts
    allowed = _ROUNDING * everyone[0].abs() + 1e-12
    if not all(((one - everyone[0]).abs() <= allowed).all() or one.isnan().any() for one in everyone):
        told = ", ".join(f"rank {rank}: {one[0].item():.9g}" for rank, one in enumerate(everyone))
        raise RanksParted(
            f"distify: the ranks have come apart: in backward pass {call} they go back from different losses ({told}). "
            "Something between the models and the loss differs between processes"
        )


def _sums(tensor: Tensor) -> Tensor:
    """Two numbers that follow from every bit of a tensor and its place; on a GPU, such that rounding changes little.

    Samples in another order are another batch: each rank would take a part of its own order.
    """
    tensor = dense(tensor.detach())
    if accelerators.has(tensor) or tensor.is_quantized:
        wide = tensor.double().reshape(-1)
        places = torch.arange(wide.numel(), device=wide.device) % _PLACES
        return torch.stack([(wide * (1 + places / (2 * _PLACES))).sum(), wide.abs().sum()]).cpu()
    data = tensor.contiguous().view(-1).view(torch.uint8)
    if data.storage_offset() % 8:  # a part of another tensor: words begin at multiples of their size
        data = data.clone()
    words, rest = data[: data.numel() // 8 * 8].view(torch.int64), data[data.numel() // 8 * 8 :]
    total = int((words * torch.arange(1, 2 * words.numel(), 2, device="cpu")).sum()) % 2**64 if words.numel() else 0
    bytes_left = int((rest * torch.arange(1, rest.numel() + 1, device="cpu")).sum())
    # Numbers that a float64 holds: 52 bits of the sum, and the others behind the point.
    second = bytes_left + 2**13 * tensor.numel() + (total >> 52) / 2**12
    return torch.tensor([float(total % 2**52), float(second)], dtype=torch.float64, device="cpu")


def _is_alike(one: Tensor, other: Tensor, rounded: bool) -> bool:
    if not rounded:
        return torch.equal(one, other)
    return bool(((one - other).abs() <= _ROUNDING * other[1].abs() + 1e-12).all())
