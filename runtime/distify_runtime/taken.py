"""How many optimizer steps were taken: the same number on all ranks, where none takes steps of its own.

A number of passes is not: rank 0 may go through a loader that the others leave alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache

from torch.optim.optimizer import register_optimizer_step_post_hook

_taken = 0


def steps_taken() -> int:
    """Since it was asked for the first time."""
    _count()
    return _taken


class Epochs:
    """Numbers of epochs by which orders are drawn: one that counts from the beginning again is another one.

    As where a warm-up and a training have a loop each over `range(epochs)`, of one loader.
    """

    def __init__(self) -> None:
        self._told: dict[Hashable, int] = {}
        steps_taken()

    def of(self, epoch: int) -> int:
        """epoch: as a script counts it."""
        again = steps_taken() - self._told.setdefault(epoch, steps_taken())
        return epoch + again * _APART


#: More epochs than anybody trains.
_APART = 1_000_003


@cache
def _count() -> None:
    def step(*_: object) -> None:
        global _taken
        _taken += 1

    register_optimizer_step_post_hook(step)
