"""How much of the work a rank is said to have done where forward passes are shared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.trace.passes import Filling
from distify_runtime.trace.record import Record, watch
from ranks import on_ranks
from torch import Tensor, nn


class Head(nn.Module):
    """Computes with many more numbers than it is given."""

    def __init__(self, related: bool) -> None:
        super().__init__()
        self.wide, self.out = nn.Linear(2, 256), nn.Linear(256, 3)
        self.related = related

    def forward(self, samples: Tensor) -> Tensor:
        if self.related:
            samples = samples - samples.mean(0)
        out: Tensor = self.out(self.wide(samples).relu())
        return out


class OfBatches(nn.Module):
    """It is given a batch as its loader makes it."""

    def __init__(self, related: bool) -> None:
        super().__init__()
        self.head = Head(related)

    def forward(self, batch: Any) -> Tensor:
        out: Tensor = self.head(batch["samples"] if isinstance(batch, dict) else batch[0][0])
        return out


def _share(folder: str, sizes: list[int], related: bool, how: str) -> Any:
    torch.manual_seed(0)
    net = Head(related) if how == "a tensor" else OfBatches(related)
    record = Record(Path(folder) / f"{rt.rank()}.pt", Filling(0))
    rt.data_parallel(net)
    watch(record, 0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step, size in enumerate(sizes):
        samples = torch.randn(size, 2, generator=torch.Generator().manual_seed(step))
        batch: Any = {"samples": samples, "names": ["one"] * size} if how == "a dictionary" else [(samples,)]
        net(samples if how == "a tensor" else batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    mine, given = record.work.share
    return mine / given


@pytest.mark.parametrize(
    ("sizes", "related", "expected"),
    [
        ([4, 4], False, 0.5),  # whose checks are no work of the run
        ([2, 1, 2, 1], False, 0.5),  # there is nothing to deal out of one sample
        ([4, 4, 4], True, 0.5),  # its layers are shared in its place
    ],
)
@pytest.mark.parametrize("how", ["a tensor", "a dictionary", "a list"])
def test_the_share_of_a_rank(tmp_path: Path, sizes: list[int], related: bool, expected: float, how: str) -> None:
    assert on_ranks(_share, str(tmp_path), sizes, related, how) == [expected, expected]
