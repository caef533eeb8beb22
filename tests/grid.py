"""What `make test` runs of a table, and what `make test-all` adds to it.

The grid: two and four ranks, over torch.distributed and over Horovod; `make test` runs two with the first. Slow: what
another test says too, of another script or in fewer turns; some of each kind run in `make test`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from tests.equivalence.horovod_ranks import needs_horovod

grid = pytest.mark.grid
slow = pytest.mark.slow

RANKS = [2, pytest.param(4, marks=grid)]
#: A backend and a number of ranks.
WAYS = [
    pytest.param("ddp", 2, id="2"),
    pytest.param("ddp", 4, id="4", marks=grid),
    pytest.param("allreduce", 2, id="allreduce-2", marks=grid),
    pytest.param("allreduce", 4, id="allreduce-4", marks=grid),
    pytest.param("horovod", 2, id="horovod-2", marks=[grid, needs_horovod]),
    pytest.param("horovod", 4, id="horovod-4", marks=[grid, needs_horovod]),
]


def some(table: Iterable[str], kept: Collection[str]) -> list[Any]:
    """The table's names for `parametrize`, of which `make test` runs those that are kept."""
    names = list(table)
    assert set(kept) <= set(names), f"{sorted(set(kept) - set(names))} is no longer in the table"
    return [pytest.param(name, id=name, marks=() if name in kept else slow) for name in names]
