"""What ranks hand to a model is compared bit by bit, wherever it lies in memory."""

from __future__ import annotations

import pytest
import torch
from distify_runtime.shared.agreement import _sums


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.uint8])
def test_a_part_of_a_tensor_is_summed_as_a_tensor_of_its_own(dtype: torch.dtype) -> None:
    """Rows that begin at no multiple of eight bytes, which a view as whole words wants."""
    rows = torch.arange(1, 61).view(12, 5).to(dtype)
    for start in range(10):
        part = rows[start : start + 2]
        assert torch.equal(_sums(part), _sums(part.clone())), start
        assert not torch.equal(_sums(part), _sums(rows[start + 1 : start + 3]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.int64, torch.uint8])
def test_another_order_or_another_power_of_two_is_another_batch(dtype: torch.dtype) -> None:
    rows = torch.tensor([[0, 1], [0, 2], [0, 4]], dtype=dtype)
    assert not torch.equal(_sums(rows), _sums(rows[[1, 0, 2]]))
    assert not torch.equal(_sums(rows), _sums(rows.flip(1)))
    assert len({tuple(_sums(row).tolist()) for row in rows}) == 3
