"""Whether a loader's batches are loaded in shares: looked at, tried, and decided by all ranks together.

First whole batches are loaded, as the script says. Where that takes so long that there is something to save, one batch
is checked: a rank's share of it, loaded once more, must be what it is in the whole. Then some are loaded in shares, and
what is faster stays.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from distify_runtime import communicator
from distify_runtime.environment import rank, world_size
from distify_runtime.output import note
from distify_runtime.randomness import common_seed
from distify_runtime.shared import costs
from distify_runtime.shared.messages import exchange
from distify_runtime.shared.region import even_counts
from distify_runtime.shared.samples import Loaded, Task

if TYPE_CHECKING:
    from distify_runtime.shared.loading import Shared

_PASSED, _COUNTED = 2, 8  # batches that are not counted, and those that are, besides those that workers have ready
_WORTH = 1e-3  # seconds of a batch: less is not worth a try
_FASTER = 0.9
_APART = 2**20  # seeds of a batch: more than it has samples


class Phase(Enum):
    LOOK = "whole batches are timed"
    CHECK = "a share is compared"
    TRY = "shares are timed"
    SHARES = "each rank loads its share"
    WHOLE = "every rank loads whole batches"


@dataclass(frozen=True)
class Took:
    """Seconds that the script waited for a batch."""

    loading: float
    exchanging: float


class Phases:
    """Of one loader, over all of its passes. All ranks come by the same batches, and so to the same phases.

    may_draw: whether shares are loaded of a data set that draws random numbers, too.
    """

    def __init__(self, shared: Shared, may_draw: bool) -> None:
        self.shared, self._may_draw = shared, may_draw
        self.phase = Phase.LOOK
        self.seed: int | None = None
        self._number = 0  # of the next batch that is drawn
        self._checked: int | None = None  # the batch that is being checked
        self._draws = self._seeded = False
        self._came = self._ready = 0  # batches in this phase; those that workers have ready
        self._took: list[Took] = []
        self._whole = 0.0  # seconds for a whole batch

    @property
    def is_over(self) -> bool:
        return self.phase is Phase.WHOLE

    def pass_begins(self, loader: DataLoader[Any]) -> None:
        """A collective."""
        self._checked = None  # a pass may have ended before it came
        if self.seed is None:
            self.seed = random.Random(f"{common_seed()}/{self.shared.number}").getrandbits(40)
            mine = [float(loader.num_workers), float(loader.prefetch_factor or 0)]
            if any(one != mine for one in self._everyones(*mine)):  # batches are drawn ahead, on each rank others
                self.phase = Phase.WHOLE

    # ---- what is drawn

    def task(self, indices: Any) -> Task:
        """How the next batch is to be loaded."""
        number, self._number = self._number, self._number + 1
        own = _share(indices)
        if self.phase in (Phase.LOOK, Phase.WHOLE) or own is None:
            return Task(number, indices)
        assert self.seed is not None
        seed = self.seed + number * _APART if self._seeded else None
        if self.phase is not Phase.CHECK:
            return Task(number, indices, own, seed=seed)
        checks, self._checked = self._checked is None, number if self._checked is None else self._checked
        return Task(number, indices, own if checks else None, checks, seed)

    # ---- what has come

    def loaded(self, task: Task, loaded: Loaded, took: Took, ready: int) -> None:
        """A collective where a phase ends."""
        self._draws = self._draws or loaded.drew
        self._ready = max(self._ready, ready)
        if self.phase is Phase.LOOK and self._is_timed(took):
            self._looked()
        elif self.phase is Phase.CHECK and task.checks and task.number == self._checked:
            self._compared(loaded.same)
        elif self.phase is Phase.TRY and task.is_share and self._is_timed(took):
            self._tried()
        elif task.is_share:
            costs.spared(self._whole - took.loading - took.exchanging)
            if self._draws and not self._seeded:  # which all ranks have heard of
                self._drawn()

    def _is_timed(self, took: Took) -> bool:
        """Whether enough have been timed."""
        self._came += 1
        if self._came > _PASSED + self._ready:
            self._took.append(took)
        return len(self._took) >= _COUNTED + self._ready

    def _looked(self) -> None:
        told = self._everyones(self._typical(one.loading for one in self._took), float(self._draws))
        self._whole = max(one[0] for one in told)
        if self._whole * (1 - 1 / world_size()) < _WORTH:
            self._go_on(Phase.WHOLE)
        elif any(one[1] for one in told):
            self._drawn()
        else:
            self._go_on(Phase.CHECK)

    def _compared(self, same: bool) -> None:
        told = self._everyones(float(same), float(self._draws))
        if all(one[0] for one in told):
            self._go_on(Phase.TRY)
        elif any(one[1] for one in told) and not self._seeded:
            self._drawn()
        else:
            self._go_on(Phase.WHOLE)
            note(
                f"every rank loads whole batches of {self.shared.name}: a sample is another one when it is loaded once "
                "more"
            )

    def _drawn(self) -> None:
        """The data set draws random numbers."""
        if self._may_draw:
            self._seeded = True
            self._go_on(Phase.CHECK)
            return
        self._go_on(Phase.WHOLE)
        note(
            f"every rank loads whole batches of {self.shared.name}: the data set draws random numbers, which would not "
            "be those of one process in shares; `rt.shard_loading(..., draws=True)` lets it draw others"
        )

    def _tried(self) -> None:
        mine = [(one.loading, one.exchanging) for one in self._took]
        told = self._everyones(*map(self._typical, zip(*mine, strict=True)))
        loading = max(one[0] for one in told)
        exchanging = min(one[1] for one in told)  # the others have waited for the last one
        shares, whole = (f"{1e3 * seconds:.1f} ms" for seconds in (loading + exchanging, self._whole))
        if loading + exchanging < _FASTER * self._whole:
            self._go_on(Phase.SHARES)
            drawn = "; random numbers that its data set draws follow from a sample's place" if self._seeded else ""
            note(f"each rank loads its share of {self.shared.name}: {shares} a batch instead of {whole}{drawn}")
        else:
            self._go_on(Phase.WHOLE)
            note(
                f"every rank loads whole batches of {self.shared.name}: {whole} each; in shares it would be {shares}, "
                f"{1e3 * exchanging:.1f} ms of them to exchange samples"
            )

    def _typical(self, times: Iterable[float]) -> float:
        """Of what workers load, one batch in several is waited for; else one that took long was disturbed."""
        return (fmean if self._ready else median)(times)

    def _go_on(self, phase: Phase) -> None:
        self.phase, self._checked, self._came, self._took = phase, None, 0, []

    def _everyones(self, *mine: float) -> list[list[float]]:
        """A collective."""
        values = torch.tensor(mine, dtype=torch.float64, device="cpu")
        tag = self.shared.tag(self._number, 2 + list(Phase).index(self.phase))
        (parts,) = exchange(tag, [values], [[values.shape] * communicator.world_size()]).parts
        return [one.tolist() for one in parts]


def _share(indices: Any) -> slice | None:
    """This rank's part of a batch, or None where there is none for each rank, or the ranks could not compare them."""
    if not isinstance(indices, (list, tuple)) or len(indices) < world_size():
        return None
    if not all(isinstance(one, (int, str)) or type(one).__module__ == "numpy" for one in indices):
        return None
    counts = even_counts(len(indices), world_size())
    start = sum(counts[: rank()])
    return slice(start, start + counts[rank()])
