"""Shards of a DataLoader, by rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import distify_runtime as rt
import pytest
import torch
from ranks import on_ranks
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
)


def _unpadded(samples: int) -> tuple[list[int], int]:
    sampler = rt.UnpaddedSampler(range(samples))
    return list(sampler), len(sampler)


@pytest.mark.parametrize("samples", [0, 2, 7])
def test_each_sample_is_on_one_rank(samples: int) -> None:
    shards = on_ranks(_unpadded, samples, ranks=3)
    assert sorted(index for shard, _ in shards for index in shard) == list(range(samples))
    assert all(length == len(shard) for shard, length in shards)
    assert list(rt.UnpaddedSampler(range(samples))) == list(range(samples))


def _each_pass(training: bool) -> list[tuple[int, list[int]]]:
    """Through loaders of a data set that is another one when the next pass begins, as curricula and pools are."""
    held = list(range(8))
    if training:
        sampler: Any = rt.TrainingSampler(held, shuffle=False)
    else:
        sampler = rt.UnpaddedSampler(held)
    loader = DataLoader(held, batch_size=2, sampler=sampler)  # type: ignore[arg-type]
    passes = []
    for now in (range(8), range(20, 36), range(3)):
        held[:] = now
        passes.append((len(loader), [int(one) for batch in loader for one in batch]))
    return passes


@pytest.mark.parametrize("training", [True, False])
def test_a_data_set_that_grows_and_shrinks_between_passes(training: bool) -> None:
    first, second = on_ranks(_each_pass, training)
    assert [one for one, _ in first] == [2, 4, 1]
    together = [sorted([*one, *other]) for (_, one), (_, other) in zip(first, second, strict=True)]
    assert together == [[*range(8)], [*range(20, 36)], [0, 1, 2, 2] if training else [0, 1, 2]]


def _data(samples: int = 23) -> TensorDataset:
    return TensorDataset(torch.arange(samples))


def _training_epochs(kwargs: dict[str, Any]) -> list[list[list[int]]]:
    torch.manual_seed(5 + rt.rank())  # ranks that seeded differently still share one order
    dataset = _data()
    loader = DataLoader(**rt.shard_training(dataset, **kwargs))
    epochs = []
    for epoch in range(2):
        assert isinstance(loader.sampler, DistributedSampler)
        loader.sampler.set_epoch(epoch)
        epochs.append([batch.tolist() for (batch,) in loader])
    return epochs


def test_training_shards_make_up_the_global_batches_of_one_process() -> None:
    kwargs = {"batch_size": 4, "shuffle": True, "drop_last": True}
    first, second = on_ranks(_training_epochs, kwargs)
    alone = _training_epochs(kwargs)
    for epoch in range(2):
        together = [[*a, *b] for a, b in zip(first[epoch], second[epoch], strict=True)]
        assert [sorted(batch) for batch in together] == [sorted(batch) for batch in alone[epoch]]
        assert len({index for batch in together for index in batch}) == 20
    assert first[0] != first[1]
    assert kwargs == {"batch_size": 4, "shuffle": True, "drop_last": True}


def test_training_without_shuffling_keeps_the_order_of_the_dataset() -> None:
    first, second = on_ranks(_training_epochs, {"batch_size": 2, "drop_last": True})
    assert [index for pair in zip(first[0], second[0], strict=True) for (index,) in pair] == list(range(22))


def test_keyword_arguments_are_shared_out_over_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "4", "RANK": "1", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    kwargs = {"batch_size": 32, "shuffle": True, "num_workers": 5, "pin_memory": False}
    evaluation = rt.shard_evaluation(_data(), **kwargs)
    assert isinstance(evaluation.pop("dataset"), TensorDataset)
    assert isinstance(evaluation.pop("sampler"), rt.UnpaddedSampler)
    assert evaluation == {"batch_size": 32, "num_workers": 3, "pin_memory": False}
    assert rt.per_rank_batch_size(32) == 8
    assert [rt.per_rank_workers(workers) for workers in (0, 1, 4, 5)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("batch_size", "advice"), [(30, "28 or 32"), (3, "4 or 8"), (1, "4 or 8"), (101, "100 or 104")]
)
def test_a_batch_that_does_not_divide_stops_with_the_nearest_sizes(
    monkeypatch: pytest.MonkeyPatch, batch_size: int, advice: str
) -> None:
    for name, value in {"WORLD_SIZE": "4", "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match=f"^distify: .* {batch_size} samples .* use a batch size of {advice},"):
        rt.per_rank_batch_size(batch_size)


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


@pytest.mark.parametrize(
    ("shard", "dataset", "kwargs", "reason"),
    [
        (rt.shard_evaluation, _data(), {"batch_sampler": [[0, 1]]}, "batch_sampler chooses its batches itself"),
        (rt.shard_evaluation, Stream(), {}, "Stream is an IterableDataset"),
        (rt.shard_evaluation, _data(), {"batch_size": None}, "batch_size=None"),
        (rt.shard_training, _data(), {"batch_size": None}, "batch_size=None"),
    ],
)
def test_loaders_whose_batches_cannot_be_shared_out_stop_the_run(
    shard: Any, dataset: Any, kwargs: dict[str, Any], reason: str
) -> None:
    with pytest.raises(SystemExit, match=reason):
        shard(dataset, **kwargs)


def test_a_sampler_of_none_is_no_sampler() -> None:
    assert isinstance(rt.shard_training(_data(), sampler=None)["sampler"], DistributedSampler)


def _evaluated() -> list[int]:
    torch.manual_seed(rt.rank())
    sampler = rt.UnpaddedSampler(_data(), SubsetRandomSampler([3, 5, 7, 11, 13]))
    assert len(sampler) == len(list(sampler))
    return list(sampler)


def test_a_subset_is_evaluated_once() -> None:
    shares = on_ranks(_evaluated)
    assert sorted(index for share in shares for index in share) == [3, 5, 7, 11, 13]
    assert sorted(map(len, shares)) == [2, 3]


def test_whether_a_loader_is_sharded() -> None:
    data = _data()
    assert not rt.is_sharded(DataLoader(data, batch_size=4, shuffle=True))
    sampler: DistributedSampler[Any] = DistributedSampler(data, num_replicas=2, rank=0)
    assert rt.is_sharded(DataLoader(data, batch_size=4, sampler=sampler))
    assert rt.is_sharded(DataLoader(data, batch_size=4, sampler=rt.UnpaddedSampler(data)))
    assert rt.is_sharded(DataLoader(data, batch_sampler=rt.ShardedBatchSampler(SequentialSampler(data), 4, False)))
