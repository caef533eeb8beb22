"""Gradients that no shared pass has put together, made the same on all ranks before a step.

What every rank computes whole is the same up to rounding. On an accelerator it is not always rounded alike (atomic
additions come in any order), and the difference would grow from step to step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.weak import WeakTensorKeyDictionary

from distify_runtime.gradients import average_now

#: Whether a tensor is where ranks that do the same round alike.
rounds_alike: Callable[[Tensor], bool] = attrgetter("is_cpu")

#: The parameters of models of which a call was computed whole, until a step is taken with their gradients.
_whole: Any = WeakTensorKeyDictionary()


def computed_whole(model: nn.Module) -> None:
    """To be called where every rank computes a call of a shared model by itself."""
    if torch.is_grad_enabled():
        _whole.update((one, None) for one in model.parameters() if not rounds_alike(one))


def make_alike(optimizer: Optimizer, shared: Iterable[nn.Module]) -> None:
    """A collective where there is something to average. shared: models whose gradients are alike but for `_whole`."""
    held = [one for group in optimizer.param_groups for one in group["params"]]
    if all(map(rounds_alike, held)):  # in every step: it has to cost nothing
        return
    held = [one for one in held if not rounds_alike(one)]
    alike = {id(parameter) for model in shared for parameter in model.parameters() if parameter not in _whole}
    average_now([one for one in held if id(one) not in alike])
    for one in held:
        _whole.pop(one, None)
