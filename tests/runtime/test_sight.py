"""Layers of libraries that add up over a process group wherever there is one see none where batches are whole."""

from __future__ import annotations

from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime import communicator
from ranks import on_ranks, run_script
from torch import Tensor, nn
from torch.distributed import all_reduce, get_world_size, is_initialized  # as a library that imports them by name

#: A codebook that counts over all ranks what it has seen, as libraries' do: some ask when they are made, some in each
#: forward pass. The decoder's BatchNorm needs the runtime's own group in the same pass.
SCRIPT = """
import torch
from torch import nn
from torch.distributed import all_reduce, get_world_size, is_initialized
import distify_runtime as rt


class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(8, 4))
        self.register_buffer("counts", torch.zeros(8))
        self.sums = is_initialized()

    def forward(self, x):
        nearest = torch.cdist(x, self.codes).argmin(dim=1)
        counts = torch.bincount(nearest, minlength=8).to(x)
        scale = 1.0
        if self.sums:
            all_reduce(counts)
        if is_initialized():
            scale = float(get_world_size())
        self.counts += counts * scale
        return self.codes[nearest] * (self.counts / self.counts.sum())[nearest].unsqueeze(1)


torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
rt.init_process_group(whole_batches=True)
net = nn.Sequential(nn.Linear(12, 4), Codebook(), nn.BatchNorm1d(4), nn.Linear(4, 12))
rt.data_parallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(16, 12)
    loss = nn.functional.mse_loss(net(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.9f}", net[1].counts.tolist(), is_initialized())
"""


@pytest.mark.of_torch
def test_a_layer_of_a_library_counts_each_sample_once() -> None:
    (alone,) = run_script(SCRIPT, ranks=0)
    assert alone.code == 0, alone.err
    assert alone.out.endswith("False\n")
    assert sum(eval(alone.out.partition(" ")[2].rpartition(" ")[0])) == 64
    assert [(one.code, one.out) for one in run_script(SCRIPT)] == [(0, alone.out)] * 2


class Asking(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        return out * get_world_size() if is_initialized() else out


def _seen(whole_batches: bool) -> Any:
    rt.init_process_group(whole_batches=whole_batches)
    if not whole_batches:
        counts = torch.ones(1)
        all_reduce(counts)
        return is_initialized(), counts.item()
    values = torch.ones(1)
    communicator.all_reduce(values)
    return is_initialized(), values.item(), communicator.rank(), communicator.is_initialized()


def test_a_group_is_hidden_where_batches_are_whole_alone() -> None:
    assert on_ranks(_seen, False) == [(True, 2.0)] * 2
    assert on_ranks(_seen, True) == [(False, 2.0, rank, True) for rank in (0, 1)]


def _compiled() -> Any:
    torch.manual_seed(0)
    net = Asking(4, 2)
    rt.data_parallel(net)
    compiled: Any = torch.compile(net, backend="eager")
    return [compiled(torch.ones(4, 4)).sum().item() for _ in range(3)], net(torch.ones(4, 4)).sum().item()


def test_a_compiled_model_sees_none_either() -> None:
    torch.manual_seed(0)
    expected = Asking(4, 2)(torch.ones(4, 4)).sum().item()
    for compiled, plain in on_ranks(_compiled):
        assert [*compiled, plain] == pytest.approx([expected] * 4)


def _own_group() -> Any:
    """A script that makes a group by itself, sees it; the runtime goes on with its own."""
    rt.init_process_group(whole_batches=True)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    values = torch.ones(1)
    communicator.all_reduce(values)
    return get_world_size(), values.item()


def test_a_group_that_the_script_makes_is_its_own() -> None:
    assert on_ranks(_own_group) == [(1, 2.0)] * 2
