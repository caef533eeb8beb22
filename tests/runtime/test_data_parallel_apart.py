"""Parts of one batch whose ranks come to different collectives: the batch is computed whole, and no rank waits."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime import communicator
from distify_runtime.shared.models import shared_model
from ranks import RankFailed, on_ranks
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import rnn

from tests.grid import RANKS, slow

Way = Callable[["Net", Tensor, Tensor], tuple[Tensor, Tensor]]
STEPS = 8


def nothing(net: Net, hidden: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
    return hidden, hidden.new_zeros(())


def a_loss(net: Net, hidden: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
    return hidden, F.mse_loss(hidden, aims)


def another_loss(net: Net, hidden: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
    return hidden, F.l1_loss(hidden, aims)


def two_losses(net: Net, hidden: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
    return hidden, F.mse_loss(hidden, aims) + F.cross_entropy(hidden, aims.argmax(1))


def a_norm(net: Net, hidden: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
    return net.norm(hidden), hidden.new_zeros(())


def another_norm(net: Net, hidden: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
    return net.other(hidden), hidden.new_zeros(())


def a_wide_norm(net: Net, hidden: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
    return net.wide(torch.cat([hidden, hidden.tanh()], 1))[:, :6], hidden.new_zeros(())


def a_slope(net: Net, hidden: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
    """A backward pass inside, through a norm."""
    with torch.enable_grad():
        inner = hidden if hidden.requires_grad else hidden.detach().requires_grad_()
        (slope,) = torch.autograd.grad(net.norm(inner).pow(3).sum(), inner, create_graph=True)
    return (slope if hidden.requires_grad else slope.detach()).tanh(), hidden.new_zeros(())


def a_padding(net: Net, hidden: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
    lengths = torch.full((len(hidden),), 3)
    packed = rnn.pack_padded_sequence(hidden.view(-1, 3, 2), lengths, batch_first=True)
    return rnn.pad_packed_sequence(packed, batch_first=True)[0].flatten(1), hidden.new_zeros(())


NORMS = (a_norm, another_norm, a_wide_norm, a_slope)
WAYS = (nothing, a_loss, two_losses, a_norm, another_norm, a_wide_norm, a_slope, a_padding)


def is_read(loud: Tensor) -> bool:
    return bool(loud.any())


def is_not_read(loud: Tensor) -> bool:
    return len(loud[loud]) > 0


class Net(nn.Module):
    """Goes one way where some sample is loud, and another where none is."""

    def __init__(self, ways: tuple[Way, Way], decide: Callable[[Tensor], bool]) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(5, 6), nn.Linear(6, 2)
        self.norm, self.other, self.wide = nn.BatchNorm1d(6), nn.BatchNorm1d(6), nn.BatchNorm1d(12)
        self.ways, self.decide = ways, decide

    def forward(self, samples: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
        quiet, loud = self.ways
        way = loud if self.decide(samples[:, 0] > 5) else quiet
        hidden, loss = way(self, self.body(samples).tanh(), aims)
        return self.head(hidden), loss + F.huber_loss(hidden, aims)


def batch(step: int, size: int, loud: dict[int, int]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    samples, aims = torch.rand(size, 5, generator=generator), torch.randn(size, 6, generator=generator)
    if step in loud:
        samples[loud[step], 0] = 9.0
    return samples, aims


def follow(
    ways: tuple[Way, Way], decide: Callable[[Tensor], bool], loud: dict[int, int], trains: bool, sizes: dict[int, int]
) -> Any:
    """Outputs and state after each step; why the model is not shared; collectives of each step."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    net = Net(ways, decide)
    rt.data_parallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    states, met = [], []
    for step in range(STEPS):
        before = communicator._meetings
        with torch.set_grad_enabled(trains):
            out, loss = net(*batch(step, sizes.get(step, 16), loud))
        if trains:
            optimizer.zero_grad()
            (out.square().mean() + loss).backward()
            optimizer.step()
        met.append(communicator._meetings - before)
        held = [out, loss, *net.parameters(), *net.buffers()]
        states += torch.cat([one.detach().flatten().double() for one in held]).tolist()
    shared = shared_model(net)
    return states, shared and shared.given_up, met


def compared(ranks: int, *arguments: Any) -> list[tuple[str, list[int]]]:
    """Of each rank, whose steps have to be those of one process: why the model is not shared, and its collectives."""
    ((expected, *_),) = on_ranks(follow, *arguments, ranks=1)
    found = on_ranks(follow, *arguments, ranks=ranks)
    for states, *_ in found:
        assert states == pytest.approx(expected, abs=1e-11)
    return [(given_up, met) for _, given_up, met in found]


PAIRS = [(one, other) for one in WAYS for other in WAYS if one is not other]
#: Each way once with the next one.
SOME = list(zip(WAYS, (*WAYS[1:], WAYS[0]), strict=True))


def name(ways: tuple[Way, Way]) -> str:
    return f"{ways[0].__name__}-{ways[1].__name__}"


@pytest.mark.parametrize("ways", [pytest.param(one, id=name(one), marks=() if one in SOME else slow) for one in PAIRS])
def test_ranks_that_come_to_different_collectives_in_a_later_call_compute_it_whole(ways: tuple[Way, Way]) -> None:
    for given_up, _ in compared(2, ways, is_read, {4: 1, 6: 12}, True, {}):
        assert given_up == ""


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("ways", SOME, ids=name)
def test_so_they_do_in_the_first_call(ways: tuple[Way, Way], ranks: int) -> None:
    compared(ranks, ways, is_read, {0: 1, 4: 15}, True, {})


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("ways", SOME, ids=name)
def test_so_they_do_without_gradients(ways: tuple[Way, Way], ranks: int) -> None:
    compared(ranks, ways, is_read, {3: 1, 5: 15}, False, {})


@pytest.mark.parametrize("ways", SOME, ids=name)
def test_so_do_four_in_a_batch_of_another_size(ways: tuple[Way, Way]) -> None:
    """Whose outputs' shapes are exchanged where others sum."""
    for given_up, _ in compared(4, ways, is_read, {4: 1, 6: 13}, True, {4: 13, 5: 14, 6: 14}):
        assert given_up == ""


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("ways", SOME, ids=name)
def test_where_it_does_not_show_what_decides_no_further_call_is_shared(ways: tuple[Way, Way], ranks: int) -> None:
    """Nothing is read out of tensors."""
    if any(way in NORMS for way in ways):  # whose running statistics are not what they were
        with pytest.raises(RankFailed, match=r"sum different things \(rank 0: .* cannot be taken back"):
            compared(ranks, ways, is_not_read, {4: 1, 6: 12}, True, {})
        return
    for given_up, _ in compared(ranks, ways, is_not_read, {4: 1, 6: 12}, True, {}):
        assert "parts of a batch sum different things (rank 0: " in given_up


def test_nor_where_losses_of_different_lines_would_meet() -> None:
    for given_up, _ in compared(2, (a_loss, another_loss), is_not_read, {4: 1, 6: 12}, True, {}):
        assert re.search(r"(rank [01]: a sum inside .*(apart\.py:\d+|at another line)\).*){2}", given_up)


def a_norm_that_is_not_gone_back_through(net: Net, hidden: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
    return hidden + 0 * net.norm(hidden).detach(), hidden.new_zeros(())


def a_norm_that_is(net: Net, hidden: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
    return hidden + 0 * net.norm(hidden), hidden.new_zeros(())


@pytest.mark.parametrize("decide", [is_read, is_not_read])
@pytest.mark.parametrize("first", [0, 4])
def test_ranks_that_would_come_to_different_collectives_in_a_backward_pass_alone(
    first: int, decide: Callable[[Tensor], bool]
) -> None:
    ways = a_norm_that_is, a_norm_that_is_not_gone_back_through
    if first and decide is is_not_read:
        with pytest.raises(
            RankFailed, match=r"rank 1: the outputs of Net, call 5, from other sums inside.* taken back"
        ):
            compared(2, ways, decide, {first: 1, 6: 12}, True, {})
    else:
        compared(2, ways, decide, {first: 1, 6: 12}, True, {})


#: Of a step: the outputs, the gradients of the parameters, the loss that all have, forward and backward; and others.
COLLECTIVES = [(nothing, 4), (a_loss, 6), (two_losses, 8), (a_norm, 6), (a_wide_norm, 6), (a_slope, 14), (a_padding, 5)]


@pytest.mark.parametrize(("way", "met"), COLLECTIVES)
def test_what_all_parts_do_costs_no_further_collective(way: Way, met: int) -> None:
    for given_up, counted in compared(2, (way, way), is_read, {4: 1, 6: 12}, True, {}):
        assert (given_up, counted[3], counted[5], counted[7]) == ("", met, met, met)
