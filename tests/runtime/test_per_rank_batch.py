"""Loaders that keep their batch size on each rank, and the running statistics of layers that normalise by it."""

from __future__ import annotations

from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.process_group import init_process_group
from ranks import on_ranks, run_script
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler

DATA = TensorDataset(torch.arange(20))


def _batches(loader: DataLoader[Any]) -> list[list[int]]:
    return [batch.tolist() for (batch,) in loader]


def _loaders() -> dict[str, Any]:
    init_process_group(per_rank_batch=True)
    by_hand = DataLoader(DATA, batch_size=4, sampler=DistributedSampler(DATA, shuffle=False))
    plain = rt.training_loader(DataLoader(DATA, batch_size=4))
    told = DataLoader(**rt.shard_training(DATA, batch_size=4))
    own = BatchSampler(SequentialSampler(DATA), 4, False)
    batches = DataLoader(DATA, batch_sampler=rt.DistributedBatchSampler(own))
    return {
        "batches": [_batches(loader) for loader in (by_hand, plain, told)],
        "own": _batches(batches),
        "length": len(batches),
        "whole": [_batches(rt.whole_loader(loader)) for loader in (by_hand, plain, told, batches)],
    }


def test_each_rank_has_batches_as_large_as_one_process() -> None:
    first, second = on_ranks(_loaders)
    assert first["batches"] == [[[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]] * 3
    assert second["batches"] == [[[1, 3, 5, 7], [9, 11, 13, 15], [17, 19]]] * 3


def test_own_batches_are_dealt_out_whole() -> None:
    """Five batches for two ranks: the first one is there twice."""
    first, second = on_ranks(_loaders)
    assert first["own"] == [[0, 1, 2, 3], [8, 9, 10, 11], [16, 17, 18, 19]]
    assert second["own"] == [[4, 5, 6, 7], [12, 13, 14, 15], [0, 1, 2, 3]]
    assert first["length"] == second["length"] == 3


def test_all_samples_are_seen_in_the_batches_of_before() -> None:
    whole = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19]]
    for found in on_ranks(_loaders):
        assert found["whole"] == [whole] * 4


def _shuffled_batches() -> list[list[int]]:
    init_process_group(per_rank_batch=True)
    own = BatchSampler(RandomSampler(DATA), 5, False)
    loader = DataLoader(DATA, batch_sampler=rt.DistributedBatchSampler(own))
    rt.set_epoch(loader, 3)
    return _batches(loader)


def test_own_random_batches_are_drawn_alike() -> None:
    first, second = on_ranks(_shuffled_batches)
    assert sorted(number for batch in first + second for number in batch) == list(range(20))


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.norm(x))  # twice: a backward pass must not miss what is written in between


def _statistics(wrapped: bool) -> tuple[list[float], list[float], list[float]]:
    model: nn.Module = _Net().double()
    inner = model
    inputs = torch.arange(12.0, dtype=torch.float64).view(4, 3) * (1 + rt.rank())
    alone = _Net().double()
    alone(inputs)
    if wrapped:
        model = DistributedDataParallel(model)
    rt.average_running_statistics(model)
    model(inputs).sum().backward()
    norm = inner.norm
    assert isinstance(norm, nn.BatchNorm1d)
    model.eval()
    before = norm.running_mean.tolist()  # type: ignore[union-attr]
    if rt.rank() == 0:
        inner(inputs)  # an evaluation meets nobody
    return before, norm.running_mean.tolist(), alone.norm.running_mean.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("wrapped", [True, False])
def test_ranks_evaluate_with_the_same_statistics(wrapped: bool) -> None:
    (first, after, alone), (second, _, other) = on_ranks(_statistics, wrapped)
    assert first == second == after
    if wrapped:
        assert first == pytest.approx([(one + two) / 2 for one, two in zip(alone, other, strict=True)])


@pytest.mark.parametrize(("size", "ranks", "sizes"), [(10, 4, "8 or 12"), (3, 4, "4 or 8"), (5, 2, "4 or 6")])
def test_a_batch_that_does_not_divide_names_the_nearest_that_do(size: int, ranks: int, sizes: str) -> None:
    script = f"import distify_runtime as rt\nrt.init_process_group()\nrt.per_rank_batch_size({size})\n"
    ended = run_script(script, ranks=ranks)
    assert all(one.code == 1 for one in ended)
    assert ended[0].err == (
        f"distify: a batch of {size} samples does not divide by {ranks} ranks: use a batch size of {sizes}, or another "
        "number of ranks\n"
    )


def test_shares_are_said_once() -> None:
    script = (
        "import distify_runtime as rt\nrt.init_process_group()\n"
        "for size in (32, 32, 8):\n    rt.per_rank_batch_size(size)\n"
    )
    first, second = run_script(script)
    assert (first.out, second.out, second.err) == ("", "", "")
    assert first.err == (
        "distify: batches of 32: 16 samples on each of 2 ranks; the learning rate is the script's\n"
        "distify: batches of 8: 4 samples on each of 2 ranks; the learning rate is the script's; so few seldom pay: "
        "fewer ranks may be as fast\n"
    )
