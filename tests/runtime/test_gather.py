"""Sharded evaluation batches come back whole: the same number, samples and order as in one process."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import distify_runtime as rt
import numpy as np
import pytest
import torch
from ranks import on_ranks
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

Pair = namedtuple("Pair", "rows names")


class Numbers(Dataset[int]):
    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> int:
        return index


def _loader(samples: int, batch_size: int, drop_last: bool = False, workers: int = 0) -> DataLoader[int]:
    dataset = Numbers(samples)
    return DataLoader(
        dataset,
        batch_sampler=rt.ShardedBatchSampler(dataset, batch_size, drop_last),
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )


def _batches_of_one_process(samples: int, batch_size: int, drop_last: bool) -> list[list[int]]:
    loader = DataLoader(Numbers(samples), batch_size=batch_size, drop_last=drop_last)
    return [batch.tolist() for batch in loader]


SIZES = [(samples, batch_size) for samples in (0, 1, 7, 12, 13) for batch_size in (1, 2, 3, 4, 6)]


def _gathered_batches() -> list[Any]:
    seen = []
    for samples, batch_size in SIZES:
        for drop_last in (False, True):
            loader = _loader(samples, batch_size, drop_last)
            assert len(loader) == len(_batches_of_one_process(samples, batch_size, drop_last))
            for _ in range(2):  # a second pass begins anew
                seen.append([rt.gather_batch(loader, batch).tolist() for batch in loader])
    return seen


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_rank_gets_the_batches_of_one_process(ranks: int) -> None:
    expected = [
        _batches_of_one_process(samples, batch_size, drop_last)
        for samples, batch_size in SIZES
        for drop_last in (False, True)
        for _ in range(2)
    ]
    assert on_ranks(_gathered_batches, ranks=ranks) == [expected] * ranks


def _with_workers() -> list[Any]:
    """Two workers draw four batches ahead; the loop gathers twice, not at all, or leaves early."""
    loader = _loader(9, 2, workers=2)
    twice = [[rt.gather_batch(loader, batch).tolist() for _ in range(2)] for batch in loader]
    for _ in loader:
        break
    last = [rt.gather_batch(loader, b).tolist() for number, b in enumerate(loader) if number == 4]
    return [twice, last]


def test_workers_that_load_ahead_do_not_disturb_the_count() -> None:
    batches = [[0, 1], [2, 3], [4, 5], [6, 7], [8]]
    expected = [[[batch, batch] for batch in batches], [[8]]]
    assert on_ranks(_with_workers) == [expected] * 2


def test_shares_are_contiguous_and_balanced() -> None:
    assert on_ranks(_shares, ranks=3) == [
        [[0, 1], [5, 6], [10]],
        [[2, 3], [7, 8], [11]],
        [[4], [9], [10]],  # no share of the last batch: its first sample stands in
    ]


def _shares() -> list[list[int]]:
    return list(rt.ShardedBatchSampler(range(12), 5))


def _kinds_of_values() -> dict[str, Any]:
    rows = torch.arange(10).view(5, 2)
    dataset = TensorDataset(rows)
    loader = DataLoader(dataset, batch_sampler=rt.ShardedBatchSampler(dataset, 5))
    (batch,) = next(iter(loader))
    names = [f"sample {int(row[0])}" for row in batch]
    weights = batch.double().requires_grad_()
    return {
        "bool": rt.gather_batch(loader, batch > 3),
        "transposed": rt.gather_batch(loader, batch.t().contiguous().t()),
        "several": rt.gather_batch(loader, batch, names, batch[:, 0].to(torch.int8)),
        "grad": rt.gather_batch(loader, weights * 2).requires_grad,
        "nested": rt.gather_batch(loader, {"a": (batch, [batch.bfloat16(), names]), "b": Pair(batch, names)}),
        "texts": rt.gather_batch(loader, (batch, tuple(names)), tuple(name.encode() for name in names)),
        "complex": rt.gather_batch(loader, torch.complex(weights, weights)),
        "arrays": rt.gather_batch(loader, batch.numpy(), np.array(names)),
        "no columns": rt.gather_batch(loader, batch[:, :0]).shape,
    }


def test_values_of_every_kind_are_gathered() -> None:
    rows = torch.arange(10).view(5, 2)
    names = [f"sample {number}" for number in (0, 2, 4, 6, 8)]
    for values in on_ranks(_kinds_of_values):
        assert values["bool"].equal(rows > 3)
        assert values["transposed"].equal(rows)
        assert values["grad"] is False
        assert values["complex"].equal(torch.complex(rows.double(), rows.double()))
        assert values["no columns"] == (5, 0)
        array, texts = values["arrays"]
        assert isinstance(array, np.ndarray)
        assert (array.tolist(), texts.tolist()) == (rows.tolist(), names)
        batch, several_names, first = values["several"]
        assert batch.equal(rows)
        assert several_names == names
        assert first.equal(rows[:, 0].to(torch.int8))
        assert values["texts"][0][1] == tuple(names)
        assert values["texts"][1] == tuple(name.encode() for name in names)
        nested, pair = values["nested"]["a"], values["nested"]["b"]
        assert nested[0].equal(rows)
        assert nested[1][0].equal(rows.bfloat16())
        assert nested[1][1] == pair.names == names
        assert pair.rows.equal(rows)


def _folded() -> list[Any]:
    """Frames that were folded into the batch, beside a label for each; not all ranks have some of the last batch."""
    seen = []
    loader = _loader(7, 3)
    for batch in loader:
        frames = batch.view(-1, 1) * 10 + torch.arange(3)
        flat, labels = rt.gather_batch(loader, frames.flatten(), batch, several_rows=True)
        seen.append((flat.tolist(), labels.tolist()))
    return seen


@pytest.mark.parametrize("ranks", [2, 3])
def test_several_rows_of_each_sample(ranks: int) -> None:
    batches = [[0, 1, 2], [3, 4, 5], [6]]
    expected = [([10 * one + frame for one in batch for frame in range(3)], batch) for batch in batches]
    assert on_ranks(_folded, ranks=ranks) == [expected] * ranks


def _wrongly_folded() -> list[str]:
    loader = _loader(4, 4)
    batch = next(iter(loader))
    values = torch.zeros(3), torch.zeros(0), torch.zeros(2 * (1 + rt.rank())), ["a", "b", "c", "d"]
    found = []
    for value in values:
        with pytest.raises(ValueError, match="gather_batch got") as error:
            rt.gather_batch(loader, value, batch, several_rows=True)
        found.append(str(error.value))
    return found


def test_other_numbers_of_rows_are_refused() -> None:
    first, second = on_ranks(_wrongly_folded)
    assert first == second
    assert [one for one in first if "not one row for each" in one] == [first[0], first[1], first[3]]
    assert "1, 2 rows for each sample by rank" in first[2]


def _refused(loader: DataLoader[Any], value: Any) -> str:
    with pytest.raises((TypeError, ValueError, RuntimeError)) as error:
        rt.gather_batch(loader, value)
    return str(error.value)


def _errors() -> list[str]:
    loader = _loader(8, 4)
    before_the_loop = _refused(loader, torch.zeros(2))
    messages = []
    for batch in loader:
        messages = [
            _refused(loader, batch.float().mean()),
            _refused(loader, batch.repeat(3)),
            _refused(loader, ["only one"]),
            _refused(loader, [{"boxes": batch}, {"boxes": batch}]),
            _refused(loader, ("one", "two", "three")),
            _refused(loader, (0.5, 0.25)),
            _refused(loader, 3),
            _refused(loader, torch.zeros(2, 4 + rt.rank())),
            _refused(DataLoader(Numbers(8), batch_size=4), batch),
        ]
    return [*messages, before_the_loop, _refused(loader, torch.zeros(2))]


def test_what_is_not_one_row_per_sample_is_refused_on_every_rank() -> None:
    first, second = on_ranks(_errors)
    assert first == second
    mean, repeated, short, collections, texts, numbers, number, shapes, sampler, before, after = first
    assert "a tensor of shape ()" in mean
    assert "a tensor of shape (6,), not one row for each of this rank's 2 samples" in repeated
    assert "a list of 1 elements" in short
    assert "a list of collections of tensors" in collections
    assert "a tuple of 3 elements" in texts
    assert "no float" in numbers  # one for each output of a model?
    assert "no int" in number
    assert "shapes (2, 4), (2, 5) by rank" in shapes
    assert "ShardedBatchSampler" in sampler
    assert before == after
    assert "inside a loop" in before


def test_a_world_of_one_gives_the_values_back() -> None:
    loader = _loader(5, 2)
    batches: list[Tensor] = list(loader)
    assert [batch.tolist() for batch in batches] == [[0, 1], [2, 3], [4]]
    assert rt.gather_batch(loader, batches[0]) is batches[0]
    assert rt.gather_batch(loader, batches[0], 3) == (batches[0], 3)


class Named(Dataset[tuple[Tensor, str]]):
    def __len__(self) -> int:
        return 7

    def __getitem__(self, index: int) -> tuple[Tensor, str]:
        return torch.full((2,), index), f"{index}.png"


def _named() -> list[Any]:
    dataset = Named()
    loader = DataLoader(dataset, batch_sampler=rt.ShardedBatchSampler(dataset, 3))
    return [rt.gather_batch(loader, x, names) for x, names in loader]


def test_texts_of_samples_that_are_tuples() -> None:
    whole = [(x, names) for x, names in DataLoader(Named(), batch_size=3)]
    assert isinstance(whole[0][1], tuple)
    for batches in on_ranks(_named):
        assert [names for _, names in batches] == [names for _, names in whole]
        assert all(type(names) is tuple for _, names in batches)
        assert all(x.equal(y) for (x, _), (y, _) in zip(batches, whole, strict=True))
