"""Gradients that no shared pass has put together, made the same on all ranks before a step.

What every rank computes whole is the same up to rounding. On an accelerator it is not always rounded alike (atomic
additions come in any order), and the difference would grow from step to step.
"""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor, device
from torch.optim import Optimizer

from distify_runtime.gradients import average_in_place

#: Devices on which ranks that do the same round alike.
EXACT = {"cpu"}


def rounds_apart(where: device) -> bool:
    return where.type not in EXACT


def make_alike(optimizer: Optimizer, shared: Collection[int]) -> None:
    """A collective where there is something to average. `shared`: the `id`s of parameters whose gradients are alike."""
    held = (one for group in optimizer.param_groups for one in group["params"] if id(one) not in shared)
    gradients = [one.grad for one in held if isinstance(one.grad, Tensor) and rounds_apart(one.device)]
    average_in_place([one for one in gradients if not one.is_sparse])
