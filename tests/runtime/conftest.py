"""What the runtime's functions do, they do over torch.distributed and over Horovod."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ranks
import torch
from distify_runtime import taken

from tests.equivalence.horovod_ranks import needs_horovod
from tests.grid import grid

OVER_BOTH = (
    "test_batchnorm", "test_gather_entries", "test_losses", "test_main_process", "test_reduce", "test_samplers",
    "test_views",
)  # fmt: skip
#: Over Horovod only where all of the grid is run.
OVER_BOTH_IN_THE_GRID = (
    "test_batch", "test_data_parallel", "test_data_parallel_decided", "test_data_parallel_objects",
    "test_data_parallel_outside", "test_data_parallel_parts", "test_data_parallel_shapes", "test_gather",
    "test_gather_samples", "test_learning_rate", "test_shard_loading", "test_training_samplers",
)  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    of_torch = metafunc.definition.get_closest_marker("of_torch") is not None
    in_grid = metafunc.module.__name__ in OVER_BOTH_IN_THE_GRID
    both_ways = in_grid or metafunc.module.__name__ in OVER_BOTH
    if both_ways and "on_ranks" in vars(metafunc.module) and not of_torch:
        marks = [needs_horovod, grid] if in_grid else [needs_horovod]
        both = [pytest.param(False, id="torch"), pytest.param(True, id="horovod", marks=marks)]
        metafunc.parametrize("over_horovod", both, indirect=True)


@pytest.fixture(autouse=True)
def over_horovod(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "over_horovod", getattr(request, "param", False))


@pytest.fixture(autouse=True)
def default_dtype() -> Iterator[None]:
    """What is trained in double precision on ranks is trained so in this process, too: not the tests that follow."""
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


@pytest.fixture(autouse=True)
def no_epoch_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process deals out is as in one that has only begun, like the ranks that it is compared with."""
    for name in ("_first", "_places", "_beside"):
        monkeypatch.setattr(taken, name, {})
