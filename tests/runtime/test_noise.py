"""What a recorded run draws for samples is the same on each rank, whatever share of a batch it has."""

from __future__ import annotations

from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.trace import noise
from distify_runtime.trace.moment import NOW
from ranks import on_ranks


def _drawn(*shape: int) -> Any:
    noise.same_noise()
    NOW.in_training = True
    torch.manual_seed(rt.rank())  # streams of their own
    return torch.rand(shape).flatten()[0].item(), torch.empty(shape).uniform_().flatten()[0].item()


@pytest.mark.parametrize("shape", [(2, 1, 1), (1, 1, 1), (1, 1)])
def test_a_row_of_noise_is_the_same_for_a_share_of_one_sample(shape: tuple[int, ...]) -> None:
    one, other = on_ranks(_drawn, *shape, watch="off")
    assert one == other
    assert one == on_ranks(_drawn, 2, *shape[1:], watch="off")[0]


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_single_number_is_of_the_scripts_own_streams(shape: tuple[int, ...]) -> None:
    one, other = on_ranks(_drawn, *shape, watch="off")
    assert one[0] != other[0]
    assert one[1] != other[1]
