"""What the runtime's functions do, they do over torch.distributed and over Horovod."""

from __future__ import annotations

import pytest
import ranks

from tests.equivalence.horovod_ranks import needs_horovod

OVER_BOTH = (
    "test_batch", "test_batchnorm", "test_data_parallel", "test_data_parallel_objects", "test_data_parallel_outside",
    "test_data_parallel_parts",
    "test_gather", "test_gather_entries", "test_gather_samples", "test_learning_rate",
    "test_losses", "test_main_process", "test_reduce", "test_samplers", "test_training_samplers", "test_views",
)  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    of_torch = metafunc.definition.get_closest_marker("of_torch") is not None
    if metafunc.module.__name__ in OVER_BOTH and "on_ranks" in vars(metafunc.module) and not of_torch:
        both = [pytest.param(False, id="torch"), pytest.param(True, id="horovod", marks=needs_horovod)]
        metafunc.parametrize("over_horovod", both, indirect=True)


@pytest.fixture(autouse=True)
def over_horovod(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "over_horovod", getattr(request, "param", False))
