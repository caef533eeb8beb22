"""Ranks that are given the same batches, step after step, are told of; what is alike by right is not."""

from __future__ import annotations

import pytest
from ranks import run_script

TRAIN = """
import sys, torch
import distify_runtime as rt
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

case = sys.argv[1]
rt.init_process_group()


class Stream(IterableDataset):
    def __iter__(self):
        drawn = torch.Generator().manual_seed(0 if case != "shared out" else rt.rank())
        for number in range(48):
            yield torch.ones(4) if case == "constant" else torch.randn(4, generator=drawn)


net = DistributedDataParallel(nn.Linear(4, 1))
maker = DistributedDataParallel(nn.Linear(4, 4)) if case == "made" else nn.Identity()
optimizer = torch.optim.SGD([*net.parameters(), *maker.parameters()], lr=0.1)
for x in DataLoader(Stream(), batch_size=4):
    if case == "also":
        x = x + rt.rank()
    if case == "one row":
        x = x[:1].expand(4, 4)  # noise that was made the same for each sample
    if case == "made":
        x = maker(torch.ones(4, 4))  # by a model that learns, of the same on all ranks
    net(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_stream_that_every_rank_reads_whole_is_told() -> None:
    ended = run_script(TRAIN, "whole")
    said = "distify: rank 0 and rank 1 have been given the same batches up to step 5: their samples are not shared out"
    assert [one.code for one in ended] == [0, 0]
    assert ended[0].err == f"{said}, and more ranks do the same work again\n"
    assert ended[1].err == ""


@pytest.mark.parametrize("case", ["shared out", "also", "constant", "made", "one row"])
def test_batches_of_ones_own_and_what_is_no_batch(case: str) -> None:
    assert [(one.code, one.err) for one in run_script(TRAIN, case)] == [(0, ""), (0, "")]
