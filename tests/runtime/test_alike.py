"""Passes that every rank makes whole, while each draws random numbers of its own."""

from __future__ import annotations

import random
from typing import Any

import distify_runtime as rt
import numpy as np
import pytest
import torch
from distify_runtime.environment import is_alone
from ranks import on_ranks
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset[list[float]]):
    def __init__(self, own: bool = False) -> None:
        self.generator = random.SystemRandom() if own else None

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> list[float]:
        if self.generator is not None:
            return [self.generator.random()]
        return [random.random(), float(np.random.rand()), torch.rand(1).item()]


def _gone_through(loader: Any) -> list[Any]:
    return [([column.tolist() for column in batch], torch.rand(1).item()) for batch in loader]


def _passes(workers: int) -> dict[str, Any]:
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)
    rt.seed_ranks_apart()
    loader = DataLoader(Noise(), batch_size=2, num_workers=workers)
    own = [torch.rand(1).item(), random.random(), float(np.random.rand())]
    state = torch.get_rng_state()
    found = []
    for number in range(2):
        found.append(_gone_through(rt.alike(loader)))
        for _ in rt.alike(loader):
            if number:
                break
    kept = bool((torch.get_rng_state() == state).all())
    training = rt.training_loader(loader)
    assert is_alone() or rt.alike(training) is training
    assert len(rt.alike(loader)) == 3
    whole = _gone_through(rt.alike(rt.whole_loader(training)))
    apart = [torch.rand(1).item(), random.random(), float(np.random.rand())]
    rt.seed_ranks_alike()
    return {"alike": found, "whole": whole, "own": own + apart, "kept": kept, "behind": _gone_through(rt.alike(loader))}


@pytest.mark.parametrize("workers", [0, 2])
def test_all_draw_alike_in_a_pass(workers: int) -> None:
    first, second = on_ranks(_passes, workers)
    (alone,) = on_ranks(_passes, workers, ranks=1)
    for name in ("alike", "whole", "behind"):
        assert first[name] == second[name]
        assert first[name] == alone[name]  # rank 0 has the script's stream all the way
    assert first["own"] == alone["own"]
    assert first["alike"][0] != first["alike"][1]  # each pass draws anew
    assert not first["kept"]
    assert second["kept"]
    assert not set(first["own"]) & set(second["own"])


def _sent() -> list[Any]:
    return [batch[0].tolist() for batch in rt.from_main_process_each(DataLoader(Noise(own=True), batch_size=2))]


def test_batches_of_rank_zero() -> None:
    first, second = on_ranks(_sent)
    assert first == second
    assert len(first) == 3


def test_alone_a_loader_is_itself() -> None:
    loader = DataLoader(Noise(), batch_size=2)
    assert rt.alike(loader) is loader
    assert rt.from_main_process_each(loader) is loader
