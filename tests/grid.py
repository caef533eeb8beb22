"""The full grid: two and four ranks, over torch.distributed and over Horovod. `make test` runs two with the first."""

from __future__ import annotations

import pytest

from tests.equivalence.horovod_ranks import needs_horovod

grid = pytest.mark.grid

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
