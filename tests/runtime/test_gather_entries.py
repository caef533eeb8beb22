"""What training says of each sample comes together in the order of one process; means keep their gradients."""

from __future__ import annotations

from typing import Any

import distify_runtime as rt
import numpy as np
import pytest
import torch
from ranks import RankFailed, on_ranks

SAMPLES = 12


def _entries() -> Any:
    samples = torch.arange(SAMPLES)
    mine = samples[rt.rank() :: rt.world_size()]
    return rt.gather_entries(
        {
            "tensor": mine.float(),
            "array": mine.numpy(),
            "list": mine.tolist(),
            "texts": tuple(str(one) for one in mine.tolist()),
            "pair": (torch.stack([mine, -mine], dim=1), [str(one) for one in mine.tolist()]),
        }
    )


@pytest.mark.parametrize("ranks", [2, 3])
def test_entries_come_in_the_order_of_one_process(ranks: int) -> None:
    whole = torch.arange(SAMPLES)
    for found in on_ranks(_entries, ranks=ranks):
        assert found["tensor"].equal(whole.float())
        assert isinstance(found["array"], np.ndarray)
        assert found["array"].tolist() == found["list"] == whole.tolist()
        assert found["texts"] == tuple(found["pair"][1])
        assert found["pair"][0].equal(torch.stack([whole, -whole], dim=1))
        assert found["pair"][1] == [str(one) for one in whole.tolist()]


def _gradient() -> Any:
    mine = torch.arange(SAMPLES, dtype=torch.float64)[rt.rank() :: rt.world_size()].requires_grad_()
    rt.gather_entries(mine).pow(2).mean().backward()
    return mine.grad


def test_averaged_over_the_ranks_the_gradient_is_that_of_one_process() -> None:
    for rank, gradient in enumerate(on_ranks(_gradient)):
        wanted = 2 * torch.arange(SAMPLES, dtype=torch.float64)[rank::2] / SAMPLES
        torch.testing.assert_close(gradient / 2, wanted, rtol=1e-15, atol=0)


def _pieces() -> Any:
    mine = rt.shard_batch(torch.arange(SAMPLES))
    return rt.gather_entries(mine, parts=True), rt.gather_entries(mine.tolist(), parts=True)


def test_pieces_of_a_batch_are_joined_end_to_end() -> None:
    for tensor, listed in on_ranks(_pieces):
        assert tensor.tolist() == listed == list(range(SAMPLES))


def _more_on_one_rank() -> Any:
    return rt.gather_entries(list(range(rt.rank() + 1)))


def test_ranks_may_have_more_entries_than_others() -> None:
    assert on_ranks(_more_on_one_rank) == [[0, 0, 1]] * 2


def _number() -> Any:
    return rt.gather_entries(1.0)


def test_a_number_has_no_entries() -> None:
    with pytest.raises(RankFailed, match="gathers tensors, arrays and lists, no float"):
        on_ranks(_number)


def test_a_world_of_one_keeps_its_values() -> None:
    values = [1, 2]
    assert rt.gather_entries(values) is values


def _means() -> Any:
    rank = rt.rank()
    weight = torch.ones((), requires_grad=True)
    loss = weight * (rank + 1)
    mean = rt.all_reduce_mean(loss)
    (mean * 2).backward()
    return mean.item(), weight.grad, rt.all_reduce_mean(rank, np.float32(rank)), rt.all_reduce_mean(np.eye(2) * rank)


def test_a_mean_has_the_gradient_of_the_ranks_own() -> None:
    for rank, (mean, gradient, (whole, single), array) in enumerate(on_ranks(_means)):
        assert mean == 1.5
        assert gradient == 2 * (rank + 1)
        assert (whole, single) == (0.5, 0.5)
        assert isinstance(single, np.float32)
        assert array.tolist() == [[0.5, 0.0], [0.0, 0.5]]
