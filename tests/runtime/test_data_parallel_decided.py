"""What a forward pass decides by the values in its batch: never by one rank's part of it, as far as it is seen."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.models import shared_model
from ranks import RankFailed, on_ranks
from torch import Tensor, nn

from tests.grid import RANKS

Decide = Callable[["Net", Tensor], Tensor]
#: Steps whose batch has one sample that is unlike all others, and where in the batch.
RARE = {10: 1, 16: 7, 20: 6, 23: 0}


class Net(nn.Module):
    def __init__(self, decide: Decide) -> None:
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3)
        self.decide, self.calls, self.seen = decide, 0, array("i")

    def forward(self, samples: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(len(samples))
        hidden = self.norm(self.body(samples))
        out: Tensor = self.head(self.decide(self, torch.cat([hidden, samples[:, :1]], 1))[:, :7])
        return out


def any_is_loud(net: Net, hidden: Tensor) -> Tensor:
    return hidden * 2 if (hidden[:, 7] > 5).any() else hidden


def some_number_of_them(net: Net, hidden: Tensor) -> Tensor:
    count = int((hidden[:, 7] > 5).sum())
    return hidden - 1 if count else hidden


def places_of_them(net: Net, hidden: Tensor) -> Tensor:
    loud = torch.nonzero(hidden[:, 7] > 5)
    return hidden * 2 if len(loud) else hidden


def a_list(net: Net, hidden: Tensor) -> Tensor:
    return hidden * 2 if any((hidden[:, 7] > 5).tolist()) else hidden


def the_second_of_two(net: Net, hidden: Tensor) -> Tensor:
    for factor, limit in ((1, 0.1), (2, 5)):
        if (hidden[:, 7] > limit).any():
            hidden = hidden * factor
    return hidden


def only_after_another(net: Net, hidden: Tensor) -> Tensor:
    loud = (hidden[:, 7] > 5).any()
    return hidden.tanh() if loud and (hidden[:, 7] > 8).any() else hidden


def as_far_as_the_greatest(net: Net, hidden: Tensor) -> Tensor:
    size = int(hidden[:, 7].max() + 1)  # 1, or 10
    return hidden[:, :8].roll(size, 1)


DECISIONS = (
    any_is_loud, some_number_of_them, places_of_them, a_list, the_second_of_two, only_after_another,
    as_far_as_the_greatest,
)  # fmt: skip


def batch(step: int) -> Tensor:
    samples = torch.rand(8, 5, generator=torch.Generator().manual_seed(step))
    if step in RARE:
        samples[RARE[step], 0] = 9.0
    return samples


def follow(decide: Decide, trains: bool = True) -> Any:
    """Parameters and buffers after each of 25 steps, and outputs; whether the model is shared; what it was given."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    net = Net(decide).train(trains)
    rt.data_parallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    states = []
    for step in range(1, 26):
        with torch.set_grad_enabled(trains):
            out = net(batch(step))
        if trains:
            optimizer.zero_grad()
            out.square().mean().backward()
            optimizer.step()
        held = [out, *net.parameters(), *net.buffers()]
        states += torch.cat([one.detach().flatten() for one in held]).tolist()
    shared = shared_model(net)
    return states, net.calls, shared and shared.given_up, net.seen


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("decide", DECISIONS)
def test_a_decision_that_only_some_batches_need_is_that_of_one_process(decide: Decide, ranks: int) -> None:
    ((expected, calls, *_),) = on_ranks(follow, decide, ranks=1)
    for states, counted, given_up, seen in on_ranks(follow, decide, ranks=ranks):
        assert (states, counted, given_up) == (pytest.approx(expected, abs=1e-12), calls, "")
        assert sum(size < 8 for size in seen) > 20


def test_the_same_in_evaluation() -> None:
    ((expected, *_),) = on_ranks(follow, any_is_loud, False, ranks=1)
    for states, *_ in on_ranks(follow, any_is_loud, False):
        assert states == pytest.approx(expected, abs=1e-12)


def only_the_first(net: Net, hidden: Tensor) -> Tensor:
    return hidden[:1] if (hidden[:, 7] > 5).any() else hidden


def test_outputs_that_no_longer_follow_the_batch_are_those_of_one_process() -> None:
    """From then on, parts of the model are shared."""
    ((expected, calls, *_),) = on_ranks(follow, only_the_first, ranks=1)
    for states, counted, given_up, _ in on_ranks(follow, only_the_first):
        assert (states, counted) == (pytest.approx(expected, abs=1e-12), calls)
        assert "do not follow the batch" in given_up


def nothing(net: Net, hidden: Tensor) -> Tensor:
    return hidden


def asserts(net: Net, hidden: Tensor) -> Tensor:
    assert not torch.isnan(hidden).any()
    return hidden


def masks(net: Net, hidden: Tensor) -> Tensor:
    padding = hidden[:, 7] > 0.001
    if padding.all():
        return hidden.relu()
    return hidden[padding].relu()


def lengths(net: Net, hidden: Tensor) -> Tensor:
    return torch.stack([row / length for row, length in zip(hidden, (1 + hidden[:, 7]).tolist(), strict=True)])


def own_number(net: Net, hidden: Tensor) -> Tensor:
    return hidden * (1 + float(net.norm.eps + net.head.bias.detach()[0] ** 2))


USUAL = (asserts, masks, lengths, own_number)


@pytest.mark.parametrize("decide", USUAL)
def test_what_is_alike_on_all_ranks_costs_no_further_checks(decide: Decide) -> None:
    """Nor is the model computed whole."""
    plain, usual = (on_ranks(follow, one)[0][3] for one in (nothing, decide))
    assert [size for size in usual if size == 8] == [8] * 3 == [size for size in plain if size == 8]


def follow_with_a_default_device(decide: Decide) -> Any:
    torch.set_default_device("cpu")  # a mode, which torch asks in each call
    return follow(decide)


@pytest.mark.parametrize("decide", USUAL)
def test_nor_where_a_default_device_is_set(decide: Decide) -> None:
    (_, _, _, seen), _ = on_ranks(follow_with_a_default_device, decide)
    assert [size for size in seen if size == 8] == [8] * 3


def reads_a_number(net: Net, hidden: Tensor) -> Tensor:
    net.head.note = hidden.detach()[:, 7].mean().item() > 0  # type: ignore[assignment]
    return hidden


def test_where_ranks_read_other_numbers_calls_are_checked_more_often() -> None:
    (_, _, given_up, seen), _ = on_ranks(follow, reads_a_number)
    assert (given_up, sum(size == 8 for size in seen)) == ("", 6)  # calls 1, 2, 4, 8, 10, 16


def number_that_matters(net: Net, hidden: Tensor) -> Tensor:
    greatest = hidden[:, 7].max().item()
    return hidden * 2 if greatest > 5 else hidden


def test_a_number_that_comes_to_matter_ends_the_run_in_the_next_check_at_the_latest() -> None:
    with pytest.raises(RankFailed, match="no longer computes in parts"):
        on_ranks(follow, number_that_matters)


def chance(net: Net, hidden: Tensor) -> Tensor:
    for _ in range(12):
        if torch.rand(()) < 0.5:
            hidden = hidden + 0
    return hidden


def test_layers_that_are_left_out_by_chance_are_checked_a_few_times() -> None:
    (*_, given_up, seen), _ = on_ranks(follow, chance)
    assert given_up == ""
    assert sum(size == 8 for size in seen) < 15


class Trainer:
    calls = 0


def elsewhere(trainer: Trainer) -> Any:
    def decide(net: Net, hidden: Tensor) -> Tensor:
        trainer.calls += 1
        return any_is_loud(net, hidden)

    return follow(decide)


def test_what_cannot_be_taken_back_ends_the_run_with_the_place() -> None:
    with pytest.raises(RankFailed, match=r"decides by what .* \(at test_data_parallel_decided\.py:\d+\)"):
        on_ranks(elsewhere, Trainer())
