"""What is looked at whenever gradients are asked for: whether they enter shared passes by the gathered outputs alone.

A tensor that leaves a pass by another way (kept by a hook, in a list) is this rank's part, and a loss on it would be
counted once per rank: with the same losses on all ranks, and other gradients than those of one process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from distify_runtime.shared import agreement, region
from distify_runtime.shared.graph import ENTRANCES, EXITS, kinds_of_nodes
from distify_runtime.shared.messages import RanksParted

_patched = False
_running = 0


def patch(before_step: Callable[[Optimizer], None]) -> None:
    """Look whenever a backward pass begins, and before the steps of optimizers. Harmless to call twice."""
    global _patched
    if _patched:
        return
    _patched = True
    autograd: Any = torch.autograd  # which exports it to nobody
    original = autograd._engine_run_backward

    @functools.wraps(original)
    def run(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        global _running
        if _running == 0 and region.current() is None and not region.computes_whole():
            roots = [one for one in outputs if isinstance(one, Tensor)]
            if _enters_shared_passes(roots):
                agreement.check_losses(roots)
        _running += 1
        try:
            return original(outputs, *args, **kwargs)
        finally:
            _running -= 1

    autograd._engine_run_backward = run
    register_optimizer_step_pre_hook(lambda optimizer, *_: before_step(optimizer))


def _enters_shared_passes(roots: Iterable[Tensor]) -> bool:
    """Raises RanksParted where a graph comes to the entrance of a shared pass without coming by an exit of one."""
    kinds = kinds_of_nodes(roots, EXITS)
    if not ENTRANCES.isdisjoint(kinds):
        raise RanksParted(
            "distify: a gradient is wanted of a tensor that was kept from inside of a shared forward pass: it is "
            "one rank's part of the batch, and would be counted once for each rank. Return it from the model's "
            "forward, or keep it in an attribute of the model"
        )
    return not EXITS.isdisjoint(kinds)
