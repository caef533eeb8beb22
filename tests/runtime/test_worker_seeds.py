"""Workers of a training loader that a script seeds draw apart on each rank; those of rank 0 draw what they did."""

from __future__ import annotations

import random
from typing import Any

import distify_runtime as rt
import numpy as np
import pytest
import torch
from ranks import on_ranks
from torch.utils.data import DataLoader, Dataset, IterableDataset


class Draws(Dataset[Any]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> list[float]:
        return [random.random(), float(np.random.rand()), float(torch.rand(()))]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return (Draws()[index] for index in range(2))


def fixed(worker: int) -> None:
    random.seed(7 + worker)
    np.random.seed(7 + worker)
    torch.manual_seed(7 + worker)


def drawn(data: Any, init: Any, wrapped: bool, method: str = "fork") -> list[list[float]]:
    generator = torch.Generator().manual_seed(3)
    init = rt.seed_workers_apart(init) if wrapped else init
    loader: Any = DataLoader(
        data, batch_size=None, num_workers=2, worker_init_fn=init, generator=generator, multiprocessing_context=method
    )
    return [[float(one) for one in row] for row in loader]


@pytest.mark.parametrize("init", [None, fixed])
def test_ranks_draw_apart_and_rank_0_as_before(init: Any) -> None:
    alone = drawn(Draws(), init, wrapped=False)
    assert drawn(Draws(), init, wrapped=True) == alone  # a world of one is left alone
    first, second, third = on_ranks(drawn, Draws(), init, True, ranks=3)
    assert first == alone
    for stream in range(3):
        everything = [row[stream] for rows in (first, second, third) for row in rows]
        assert len(set(everything)) == len(everything)


def test_they_draw_the_same_each_time() -> None:
    assert on_ranks(drawn, Draws(), fixed, True) == on_ranks(drawn, Draws(), fixed, True)


def test_workers_that_are_spawned() -> None:
    first, second = on_ranks(drawn, Draws(), fixed, True, "spawn")
    assert first == drawn(Draws(), fixed, wrapped=False)
    assert not {one for row in first for one in row} & {one for row in second for one in row}


def test_all_ranks_read_a_stream_as_one() -> None:
    first, second = on_ranks(drawn, Stream(), fixed, True)
    assert first == second
