"""Running variances of a process alone that stands for ranks, of a batch that was filled up so that each has the same.

Ranks that hold the same to the last bit take it for one batch (`batchnorm.py`): it is corrected by the count of one of
them. In the process that has it several times, it would be by the count of all.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from distify_runtime.patching import wrap


def count_repeats_once(ranks: int) -> None:
    """Has batch normalisation keep what that many ranks would keep."""

    inside = False  # torch calls it by its name once more, where something sees all of its functions

    def batch_norm(
        original: Callable[..., Tensor],
        input: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        nonlocal inside
        if inside or not training or running_var is None or not _is_repeated(input, ranks):
            given = running_mean, running_var, weight, bias, training, momentum, eps
            return original(input, *given)
        inside = True
        try:
            with torch.no_grad():
                original(input[: len(input) // ranks], running_mean, running_var, None, None, True, momentum, eps)
            return original(input, None, None, weight, bias, True, momentum, eps)
        finally:
            inside = False

    if ranks > 1:
        wrap(functional, "batch_norm", batch_norm)


def _is_repeated(input: Tensor, ranks: int) -> bool:
    """Whether each rank would hold the same. GPUs merge all that they hold, and do not see it."""
    if input.is_cuda or len(input) == 0 or len(input) % ranks:
        return False
    first, *others = input.detach().chunk(ranks)
    return first.numel() > first.shape[1] and all(torch.equal(one, first) for one in others)
