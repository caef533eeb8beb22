"""Sums over ranks are exact and keep their types."""

from __future__ import annotations

from typing import Any, NamedTuple

import distify_runtime as rt
import numpy as np
import pytest
import torch
from ranks import on_ranks


def _sum_numbers() -> Any:
    rank = rt.rank()
    return rt.all_reduce_sum(2**60 + rank, 0.1 * (rank + 1), rank == 0, np.float32(1.5), np.int64(2**40))


def test_numbers_are_summed_exactly_and_keep_their_types() -> None:
    first, second = on_ranks(_sum_numbers)
    assert first == second == (2**61 + 1, 0.1 + 0.2, 1, 3.0, 2**41)
    assert [type(value) for value in first] == [int, float, int, np.float32, np.int64]


def _sum_tensors() -> Any:
    rank = rt.rank()
    counts = torch.arange(6).view(2, 3).t() * (rank + 1)  # not contiguous
    losses = torch.full((2,), 0.5, dtype=torch.float64, requires_grad=True)
    scalar = torch.tensor(1.0)
    array = np.array([1, rank], dtype=np.int32)[::-1]
    array.flags.writeable = False
    return counts, losses.detach(), rt.all_reduce_sum(counts, losses, scalar, array), scalar


def test_tensors_are_summed_into_new_ones_of_the_same_shape_and_dtype() -> None:
    for counts, losses, (total_counts, total_losses, total_scalar, total_array), scalar in on_ranks(_sum_tensors):
        assert total_counts.equal(torch.arange(6).view(2, 3).t() * 3)
        assert total_losses.equal(torch.ones(2, dtype=torch.float64))
        assert not total_losses.requires_grad
        assert total_scalar.shape == ()
        assert total_array.tolist() == [1, 2]
        assert total_array.dtype == np.int32
        assert counts[1, 1] in (4, 8)  # what was passed in stays
        assert losses.equal(torch.full((2,), 0.5, dtype=torch.float64))
        assert scalar == 1


def _sum_with_an_empty_shard() -> Any:
    """A loop over a rank's batches that leaves rank 2 with the numbers it began with."""
    correct: Any = 0
    loss: Any = 0
    confusion: Any = 0
    for _ in range(2 - rt.rank()):
        correct += torch.tensor([True, True, False]).sum()
        loss += 0.25
        confusion += np.eye(2)
    return rt.all_reduce_sum(correct, loss, confusion)


def test_a_rank_without_samples_joins_with_the_number_it_began_with() -> None:
    for correct, loss, confusion in on_ranks(_sum_with_an_empty_shard, ranks=3):
        assert correct == 6
        assert correct.dtype == torch.int64
        assert loss == 0.75
        assert isinstance(loss, float)
        assert confusion.tolist() == [[3, 0], [0, 3]]


class Pair(NamedTuple):
    one: float
    other: int


def _lists() -> Any:
    of_rank = [0.1 + rt.rank(), 1e39]
    sums = rt.all_reduce_sum(of_rank, (rt.rank(), 16777217, True), [[1], [2 * rt.rank()]], Pair(0.5, 3), [])
    weight = torch.tensor(2.0, requires_grad=True)
    [mean, _] = rt.all_reduce_mean([weight * (1 + rt.rank()), 0.1])
    mean.backward()
    without = rt.all_reduce_sum([0, 0] if rt.rank() else [0.5, 3])
    return sums, rt.all_reduce_mean(of_rank), mean.item(), weight.grad.item(), without, rt.all_reduce_mean([0.1])


def test_lists_of_numbers_stay_lists_and_each_number_what_it_is() -> None:
    for rank, found in enumerate(on_ranks(_lists)):
        sums = ([0.1 + 1.1, 2e39], (1, 33554434, 2), [[2], [2]], Pair(1.0, 6), [])
        assert found == (sums, [(0.1 + 1.1) / 2, 1e39], 3.0, 1.0 + rank, [0.5, 3], [0.1])
        assert type(found[0][3]) is Pair
    assert rt.all_reduce_mean([1, 2]) == [1, 2]


def _not_there_yet() -> tuple[Any, ...]:
    number = float(rt.rank())
    return (
        rt.all_reduce_mean(None), rt.all_reduce_mean(number, None, "-"), rt.all_reduce_sum(number, None),
        rt.all_reduce_sum([1, "x"]), rt.all_reduce_mean(torch.ones(2), None)[1],
    )  # fmt: skip


def test_what_is_no_figure_yet_stays_what_it_is() -> None:
    """`best = None`, which is shown before there is one; the others beside it are put together."""
    assert on_ranks(_not_there_yet) == [(None, (0.5, None, "-"), (1.0, None), [2, "x"], None)] * 2
    assert rt.all_reduce_mean(None, 1.5) == (None, 1.5)
    assert rt.all_reduce_sum(["x"]) == ["x"]


def _errors() -> list[str]:
    messages = []
    mismatch = torch.zeros(2 + rt.rank())
    for values in ((torch.tensor(True),), (b"x",), (mismatch,), (1,) * (1 + rt.rank())):
        with pytest.raises((TypeError, ValueError)) as error:
            rt.all_reduce_sum(*values)
        messages.append(str(error.value))
    return messages


def test_what_cannot_be_summed_is_refused_on_every_rank() -> None:
    first, second = on_ranks(_errors)
    assert first == second
    assert "torch.bool" in first[0]
    assert "not bytes" in first[1]
    assert "shape (2,)" in first[2]
    assert "shape (3,)" in first[2]
    assert "more values on one rank" in first[3]


def test_a_world_of_one_returns_what_it_was_given() -> None:
    tensor = torch.ones(2)
    assert rt.all_reduce_sum(2**70) == 2**70
    assert rt.all_reduce_sum(1, tensor) == (1, tensor)
    with pytest.raises(TypeError, match=r"torch\.bool"):
        rt.all_reduce_sum(torch.tensor([True]))


def _decisions() -> list[bool]:
    any_rank = [rt.any_rank(rt.rank() == 2), rt.any_rank(torch.tensor(rt.rank() > 5)), rt.any_rank(True)]
    return [*any_rank, rt.all_ranks(rt.rank() != 2), rt.all_ranks(torch.tensor(rt.rank() < 5))]


def test_a_decision_is_taken_alike_on_all_ranks() -> None:
    assert on_ranks(_decisions, ranks=3) == [[True, False, True, False, True]] * 3
    assert rt.any_rank(True)
    assert not rt.any_rank(False)
    assert rt.all_ranks(True)
    assert not rt.all_ranks(False)
