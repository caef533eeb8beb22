"""Batches that one process has no memory for: what a check cannot look at whole, it looks at in part."""

from __future__ import annotations

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.models import shared_model
from ranks import RankFailed, on_ranks
from torch import Tensor, nn


class Large(nn.Module):
    """Has room for so many samples on a device; on the CPUs of these tests nobody else would say so."""

    def __init__(self, room: int, backward: bool) -> None:
        super().__init__()
        self.room, self.backward = room, backward
        self.net = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, 3))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x)
        if len(x) > self.room and not self.backward:
            raise torch.cuda.OutOfMemoryError(f"no room for {len(x)} samples")
        if len(x) > self.room and out.requires_grad:
            out.register_hook(self._fail)
        return out

    def _fail(self, gradient: Tensor) -> None:
        raise torch.cuda.OutOfMemoryError("no room for gradients")


def trained(room: int, backward: bool = False) -> tuple[list[Tensor], bool]:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    model = Large(room, backward)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rt.data_parallel(model)
    for _ in range(4):
        out = model(torch.randn(12, 5))
        optimizer.zero_grad()
        (torch.cdist(out, out).mean() + out.sum()).backward()
        optimizer.step()
    shared = shared_model(model)
    return [one.detach() for one in model.state_dict().values()], shared is not None and shared.is_shared


@pytest.mark.parametrize("backward", [False, True])
def test_a_check_of_fewer_samples(backward: bool) -> None:
    ((expected, _),) = on_ranks(trained, 99, ranks=1)
    for found, is_shared in on_ranks(trained, 6, backward):
        assert is_shared
        assert all(torch.allclose(one, other, atol=1e-12, rtol=0) for one, other in zip(found, expected, strict=True))


def test_no_room_for_a_part_either() -> None:
    with pytest.raises(RankFailed, match="no room for"):
        on_ranks(trained, 2)
