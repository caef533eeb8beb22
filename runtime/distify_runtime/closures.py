"""Optimizers that evaluate the loss themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import Tensor

from distify_runtime.meeting import collective
from distify_runtime.reduce import all_reduce_mean, all_reduce_sum


@collective
def averaged_closure(closure: Callable[..., Any], summed: bool = False) -> Callable[..., Any]:
    """A closure whose loss is that of all ranks, so that an optimizer which compares losses goes on alike.

    closure: computes the loss of this rank's share and its gradients, which are averaged over the ranks by others.
    summed: the loss is a sum over the share, whose total comes back; else a mean over equal shares, whose mean does.
    What comes back is detached. Each call is a collective.
    """
    over_ranks = all_reduce_sum if summed else all_reduce_mean

    @wraps(closure)
    def averaged(*args: Any, **kwargs: Any) -> Any:
        loss = closure(*args, **kwargs)
        return None if loss is None else over_ranks(loss.detach() if isinstance(loss, Tensor) else loss)

    return averaged
