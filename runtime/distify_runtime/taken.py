"""How many optimizer steps were taken: at one place of a program, the same number on all ranks.

A number of passes is not: rank 0 may go through a loader that the others leave alone.
"""

from __future__ import annotations

from functools import cache

from torch.optim.optimizer import register_optimizer_step_post_hook

_taken = 0


def steps_taken() -> int:
    """Since it was asked for the first time."""
    _count()
    return _taken


@cache
def _count() -> None:
    def step(*_: object) -> None:
        global _taken
        _taken += 1

    register_optimizer_step_post_hook(step)
