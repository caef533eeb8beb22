"""How many optimizer steps were taken: the same number on all ranks, where none takes steps of its own.

A number of passes is not: rank 0 may go through a loader that the others leave alone.
"""

from __future__ import annotations

from functools import cache

from torch.optim.optimizer import register_optimizer_step_post_hook

from distify_runtime.randomness import common_place

_taken = 0

#: How many steps had been taken when an epoch was told for the first time, by the seed and its number.
_first: dict[tuple[int, int], int] = {}
#: How many had been when a sampler was made where rank 0's random numbers stood so for the first time.
_places: dict[tuple[int, str], int] = {}
#: Which samplers were told an epoch since the last step.
_beside: dict[tuple[int, int, int], list[Epochs]] = {}
_beside_at = 0


def steps_taken() -> int:
    """Since it was asked for the first time."""
    _count()
    return _taken


class Epochs:
    """The numbers of epochs by which a sampler draws its orders: others than those of any sampler before it.

    One process draws each order anew. So epochs that are counted from the beginning again are others once steps were
    taken, as where a warm-up and a training have a loop each over `range(epochs)`, of one loader or of one that each
    makes for itself; and so are those of a second sampler beside the first. What is told for the first time is what
    the script says: a run that is resumed goes on with the orders that it would have had.
    Where a script sets its seed back, one process draws all once more; so it is here for samplers that are made where
    random numbers are as they were.
    """

    def __init__(self) -> None:
        self.seed, place = common_place()
        self._back = steps_taken() - _places.setdefault((self.seed, place), steps_taken())
        self.before_any = self.of(0)

    def of(self, epoch: int) -> int:
        """epoch: as a script counts it."""
        now = steps_taken() - self._back
        again = now - _first.setdefault((self.seed, epoch), now)
        return epoch + again * _APART + self._number_beside(epoch) * _FAR_APART

    def _number_beside(self, epoch: int) -> int:
        """How many others were told the epoch since the last step, before this one was."""
        global _beside_at
        if _beside_at != steps_taken():
            _beside.clear()
            _beside_at = steps_taken()
        told = _beside.setdefault((self.seed, self._back, epoch), [])
        if self not in told:
            told.append(self)
        return told.index(self)


#: More epochs than anybody trains, and more than that times the steps that anybody takes.
_APART = 1_000_003
_FAR_APART = 1_000_000_000_039


@cache
def _count() -> None:
    def step(*_: object) -> None:
        global _taken
        _taken += 1

    register_optimizer_step_post_hook(step)
