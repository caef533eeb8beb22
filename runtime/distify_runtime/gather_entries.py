"""What training says of each sample, put together for the global batch."""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch
from torch import Tensor

from distify_runtime import communicator
from distify_runtime.environment import is_alone, rank, world_size
from distify_runtime.meeting import collective
from distify_runtime.per_sample import is_array, is_per_sample


@collective
def gather_entries(values: Any, parts: bool = False) -> Any:
    """The entries of all ranks' samples, on every rank. A collective.

    `values` has one entry per sample of this rank's share of the batch: a tensor or numpy array with the samples along
    its first dimension, a list of one entry each, a tuple of one text each, or another tuple or dictionary of such.
    They come back in the order of one process. What all ranks then compute alike has the gradient of one process.
    parts: the share is a piece of the batch (`shard_batch`); else every world-size-th sample (`DistributedSampler`).
    Raises TypeError for what has no entries.
    """
    if is_alone():
        return values
    return _together(values, communicator.all_gather_object(_portable(values)), parts)


def _portable(values: Any) -> Any:
    if isinstance(values, Tensor):
        return values.detach().cpu()
    if isinstance(values, dict):
        return {key: _portable(value) for key, value in values.items()}
    if isinstance(values, tuple):
        return values if is_per_sample(values) else tuple(map(_portable, values))
    if isinstance(values, list):
        return [one.detach().cpu() if isinstance(one, Tensor) else one for one in values]
    if not is_array(values):
        raise TypeError(f"gather_entries gathers tensors, arrays and lists, no {type(values).__name__}")
    return values


def _together(mine: Any, everyone: list[Any], parts: bool) -> Any:
    if isinstance(mine, dict):
        return {key: _together(value, [one[key] for one in everyone], parts) for key, value in mine.items()}
    if isinstance(mine, tuple) and is_per_sample(mine):
        return tuple(_together(list(mine), everyone, parts))
    if isinstance(mine, tuple):
        return tuple(_together(value, [one[at] for one in everyone], parts) for at, value in enumerate(mine))
    rows = [len(one) for one in everyone]
    in_turns = not parts and len(set(rows)) == 1
    if isinstance(mine, list):
        return list(chain.from_iterable(zip(*everyone, strict=True) if in_turns else everyone))
    whole = torch.cat([torch.as_tensor(one) for one in everyone])
    if in_turns:
        whole = whole.view(world_size(), rows[0], *whole.shape[1:]).transpose(0, 1).reshape(whole.shape)
    if is_array(mine):
        return whole.numpy()
    whole = whole.to(mine.device)
    if not (mine.requires_grad and torch.is_grad_enabled()):
        return whole
    start = sum(rows[: rank()])
    own = slice(rank(), None, world_size()) if in_turns else slice(start, start + len(mine))
    return _WithOwn.apply(mine, whole, own)  # type: ignore[no-untyped-call]


class _WithOwn(torch.autograd.Function):
    """The entries of all ranks, with a way back to this rank's; averaged over the ranks, it is that to all."""

    @staticmethod
    def forward(ctx: Any, mine: Tensor, whole: Tensor, own: slice) -> Tensor:
        ctx.own = own
        return whole.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0][ctx.own] * world_size(), None, None
