"""What the first batches do not show, their samples being complete: a mask that leaves some out, shorter samples."""

from __future__ import annotations

import functools
from collections.abc import Callable

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.models import _shared
from ranks import on_ranks
from torch import Tensor, nn

SAMPLES, LENGTH, STEPS = 8, 4, 6

Compute = Callable[["Net", Tensor, Tensor], Tensor]


class Net(nn.Module):
    """compute: what it gives of ids or features (samples, length), and of their mask, which is of the same shape."""

    def __init__(self, compute: Compute) -> None:
        super().__init__()
        self.words, self.last = nn.Embedding(9, 3, dtype=torch.float64), nn.Linear(3, 1, dtype=torch.float64)
        self.compute = compute

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.compute(self, ids, mask)

    def each(self, ids: Tensor) -> Tensor:
        """(samples, length)"""
        out: Tensor = self.last(self.words(ids)).squeeze(2).square()
        return out


def mean_over_all(net: Net, ids: Tensor, mask: Tensor) -> Tensor:
    return (net.each(ids) * mask).sum() / mask.sum()


def mean_of_chosen(net: Net, ids: Tensor, mask: Tensor) -> Tensor:
    return net.each(ids)[mask.bool()].mean()


def mean_over_words(net: Net, ids: Tensor, mask: Tensor) -> Tensor:
    """Whose mask is made of the ids."""
    known = (ids != 0).double()
    return (net.each(ids) * known).sum() / known.sum()


def without_the_first(net: Net, ids: Tensor, mask: Tensor) -> Tensor:
    """Of ids from 1 on: there is nothing that 0 stands for."""
    return net.each(ids - 1).mean(1)


def mean_of_each(net: Net, ids: Tensor, mask: Tensor) -> Tensor:
    return (net.each(ids) * mask).sum(1) / mask.sum(1)


def mean_of_figures(net: Net, ids: Tensor, mask: Tensor) -> Tensor:
    return net.each(ids).mean()


def only_complete(net: Net, ids: Tensor, mask: Tensor) -> Tensor:
    """Gives no number of others."""
    complete = torch.where(mask.bool().all(1), 1.0, float("nan"))
    return net.each(ids).mean(1) * complete


DEPEND = {one.__name__: one for one in (mean_over_all, mean_of_chosen, mean_over_words)}
APART = {one.__name__: one for one in (without_the_first, mean_of_each, mean_of_figures, only_complete)}


def _batches(is_complete: bool) -> list[tuple[Tensor, Tensor]]:
    drawn, found = torch.Generator().manual_seed(1), []
    for step in range(STEPS):
        ids = torch.randint(1, 9, (SAMPLES, LENGTH), generator=drawn)
        mask = torch.ones(SAMPLES, LENGTH, dtype=torch.float64)
        if step > 2 and not is_complete:
            mask[:3, 2:] = ids[:3, 2:] = 0
        found.append((ids, mask))
    return found


def _trained(name: str, ranks: bool) -> tuple[list[float], bool]:
    """The loss of each step, and whether all was computed whole."""
    torch.manual_seed(0)
    net = Net({**DEPEND, **APART}[name])
    if ranks:
        rt.data_parallel(net)
    optimizer, found = torch.optim.SGD(net.parameters(), lr=0.1), []
    for ids, mask in _batches(name in ("without_the_first", "only_complete")):
        loss = net(ids, mask).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found, any(one.given_up for one in _shared.values() if one._model() is net)


@functools.cache
def _followed(name: str) -> tuple[list[float], bool]:
    first, second = on_ranks(_trained, name, True)
    assert first == second
    return first


@pytest.mark.parametrize("name", [*DEPEND, *APART])
def test_losses_are_those_of_one_process(name: str) -> None:
    assert _followed(name)[0] == pytest.approx(_trained(name, ranks=False)[0], abs=1e-12)


@pytest.mark.parametrize("name", APART)
def test_what_is_of_each_sample_is_shared(name: str) -> None:
    assert not _followed(name)[1]
