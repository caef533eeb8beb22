"""A batch as a later one may be: a mask of ones that leaves something out, a sample that is shorter than the others.

In the first batches much is alike by chance: all samples are complete. What parts make up then, they may not make up
later, as a mean over what a mask leaves. So a plan is also held against a batch that is altered. No number that is none
of a mask becomes another, and no index but one that was there, or 0 (a check finds what looks up past an end).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def altered(tensors: Sequence[Tensor], dims: Mapping[int, int]) -> list[Tensor] | None:
    """Copies, by where the batch is in them; None where none of them becomes another."""
    found = [_altered(one.detach(), dims[at]) if at in dims else None for at, one in enumerate(tensors)]
    if all(one is None for one in found):
        return None
    return [
        old if new is None else new.requires_grad_(old.requires_grad)
        for new, old in zip(found, tensors, strict=True)
    ]  # fmt: skip


def _altered(tensor: Tensor, dim: int) -> Tensor | None:
    """A mask of ones, which leaves out some of the first sample; indices, of which its end is filled up with zeros."""
    if tensor.layout is not torch.strided or tensor.numel() < 2 or tensor.is_complex():
        return None
    low, high = tensor.min(), tensor.max()
    is_mask = bool((low == high) & (high == 1))
    are_numbers = not tensor.is_floating_point() and tensor.dtype is not torch.bool
    if not is_mask and not (are_numbers and tensor.dim() > 1 and bool((low >= 0) & (low < high))):
        return None
    new = tensor.clone()
    first = new.select(dim, 0)  # a view of it
    (first[..., first.shape[-1] // 2 :] if first.dim() else first).fill_(0)
    return new
