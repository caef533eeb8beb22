"""Moves parameters by their last digits but a few, once: how far does training by itself go apart from there?"""

from __future__ import annotations

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

#: By which part of themselves, in as many digits as numbers have: far more than ranks round apart, and far less than a
#: mistake changes.
_PART = {torch.float64: 1e-10, torch.float32: 1e-6}


def nudge() -> None:
    """After the first step of each optimizer; what the script draws stays what it is."""
    signs = torch.Generator().manual_seed(0)
    nudged: set[int] = set()

    def after(optimizer: Optimizer, args: object, kwargs: object) -> None:
        if id(optimizer) in nudged:
            return
        nudged.add(id(optimizer))
        for group in optimizer.param_groups:
            for one in group["params"]:
                if part := _PART.get(one.dtype):
                    sign = torch.rand(one.shape, generator=signs, dtype=torch.float64, device="cpu").sub_(0.5).sign_()
                    one.data.mul_(1 + part * sign.to(one.device, one.dtype))

    register_optimizer_step_post_hook(after)
