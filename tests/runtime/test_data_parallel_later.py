"""What a model computes only later, or by chance, or with a weight that is zero as yet, is held against the whole."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.messages import RanksParted
from distify_runtime.shared.models import _shared
from ranks import on_ranks
from torch import Tensor, nn

STEPS, BEGINS = 16, 12

Compute = Callable[["Later", Tensor, int], Tensor]


class Later(nn.Module):
    book: Tensor
    weight: Tensor

    def __init__(self, compute: Compute) -> None:
        super().__init__()
        self.first, self.more, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.register_buffer("book", torch.randn(3, 4))
        self.register_buffer("weight", torch.zeros(1))
        self.compute, self.calls, self.counts = compute, 0, {"calls": 0}
        self.size: int | None = None

    def forward(self, samples: Tensor, step: int) -> Tensor:
        out: Tensor = self.last(self.compute(self, self.first(samples), step))
        return out


def _apart(hidden: Tensor) -> Tensor:
    """What depends on the other samples."""
    return hidden - hidden.mean(0)


def by_the_step(net: Later, hidden: Tensor, step: int) -> Tensor:
    return _apart(hidden) if step >= BEGINS else hidden


def by_its_calls(net: Later, hidden: Tensor, step: int) -> Tensor:
    net.calls += 1
    return _apart(hidden) if net.calls > BEGINS else hidden


def by_calls_in_a_dictionary(net: Later, hidden: Tensor, step: int) -> Tensor:
    net.counts["calls"] += 1
    return _apart(hidden) if net.counts["calls"] > BEGINS else hidden


def by_chance(net: Later, hidden: Tensor, step: int) -> Tensor:
    return _apart(hidden) if random.random() < 0.3 else hidden


def along_another_dimension(net: Later, hidden: Tensor, step: int) -> Tensor:
    return hidden - (hidden.mean(0, keepdim=True) if step >= BEGINS else hidden.mean(1, keepdim=True))


def into_a_buffer(net: Later, hidden: Tensor, step: int) -> Tensor:
    if step >= BEGINS:
        net.book[:2] = hidden.detach()[:2]
    return hidden + net.book[torch.cdist(hidden, net.book).argmin(1)]


def with_a_weight(net: Later, hidden: Tensor, step: int) -> Tensor:
    return hidden + max(0.0, step - BEGINS + 1.0) * _apart(hidden)


def with_a_tensor_as_weight(net: Later, hidden: Tensor, step: int) -> Tensor:
    return torch.mul(_apart(hidden), torch.tensor(float(step >= BEGINS), dtype=hidden.dtype)) + hidden


def with_a_weight_for_a_sum(net: Later, hidden: Tensor, step: int) -> Tensor:
    return torch.add(hidden, _apart(hidden), alpha=int(step >= BEGINS))


def between_two(net: Later, hidden: Tensor, step: int) -> Tensor:
    return torch.lerp(hidden, _apart(hidden), float(step >= BEGINS))


def by_one_choice(net: Later, hidden: Tensor, step: int) -> Tensor:
    return torch.where(torch.tensor(step >= BEGINS), _apart(hidden), hidden)


def with_a_weight_in_a_buffer(net: Later, hidden: Tensor, step: int) -> Tensor:
    net.weight.fill_(float(step >= BEGINS))
    return hidden + net.weight * _apart(hidden)


def turned_along_another_dimension(net: Later, hidden: Tensor, step: int) -> Tensor:
    return hidden + hidden.roll(1, 0 if step >= BEGINS else 1)


def chosen_by_the_batch(net: Later, hidden: Tensor, step: int) -> Tensor:
    """By what nobody reads: on some ranks, otherwise than of the whole."""
    return hidden * torch.where(hidden[:, 0].mean() > 0, net.book[0], net.book[1])


def under_a_cap(net: Later, hidden: Tensor, step: int) -> Tensor:
    return hidden * ((1.0 if step >= BEGINS else 50.0) / hidden.norm()).clamp(max=1.0)


def under_a_cap_in_place(net: Later, hidden: Tensor, step: int) -> Tensor:
    return hidden * ((1.0 if step >= BEGINS else 50.0) / hidden.norm()).clamp_(max=1.0)


def above_a_margin(net: Later, hidden: Tensor, step: int) -> Tensor:
    return hidden + torch.relu(hidden.norm() - (1.0 if step >= BEGINS else 50.0))


def by_the_less_of_two(net: Later, hidden: Tensor, step: int) -> Tensor:
    return hidden * torch.minimum(hidden.norm(), net.book.new_tensor(50.0 if step >= BEGINS else 0.1))


def by_a_hook(net: Later, hidden: Tensor, step: int) -> Tensor:
    hidden = hidden.tanh()
    if step >= BEGINS:
        hidden.register_hook(lambda gradient: gradient / gradient.norm())
    return hidden


def of_some_samples(net: Later, hidden: Tensor, step: int) -> Tensor:
    """Of one in eight: in most checks of none, all samples being drawn alike there."""
    return torch.where(torch.rand(len(hidden), 1) < 0.125, _apart(hidden), hidden)


def of_most_samples(net: Later, hidden: Tensor, step: int) -> Tensor:
    kept = torch.rand(len(hidden), 1).add(0.9).floor()
    return hidden * kept + (1 - kept) * _apart(hidden)


APART = {
    one.__name__: one
    for one in (
        by_the_step, by_its_calls, by_calls_in_a_dictionary, by_chance, along_another_dimension, into_a_buffer,
        with_a_weight, with_a_tensor_as_weight, with_a_weight_for_a_sum, between_two, by_one_choice, of_some_samples,
        of_most_samples, with_a_weight_in_a_buffer, turned_along_another_dimension, chosen_by_the_batch, under_a_cap,
        under_a_cap_in_place, above_a_margin, by_the_less_of_two, by_a_hook,
    )
}  # fmt: skip


def another_layer(net: Later, hidden: Tensor, step: int) -> Tensor:
    return net.more(hidden).tanh() if step >= BEGINS else hidden


def more_turns(net: Later, hidden: Tensor, step: int) -> Tensor:
    for _ in range(1 + step // 3):
        hidden = net.more(hidden).relu() + hidden
    return hidden


def a_penalty_that_grows(net: Later, hidden: Tensor, step: int) -> Tensor:
    return hidden + max(0.0, (step - BEGINS) / 4) * hidden.square().mean(1, keepdim=True)


def one_of_two_layers(net: Later, hidden: Tensor, step: int) -> Tensor:
    net.calls += 1
    return net.more(hidden) if random.random() < 0.3 else hidden.relu()


def every_tenth_call(net: Later, hidden: Tensor, step: int) -> Tensor:
    net.calls += 1
    return net.more(hidden).tanh() if net.calls % 7 == 0 else hidden


def one_of_two_by_a_flag(net: Later, hidden: Tensor, step: int) -> Tensor:
    return torch.where(torch.tensor(step >= BEGINS), hidden.relu(), hidden.tanh())


def sums_with_weights(net: Later, hidden: Tensor, step: int) -> Tensor:
    added = torch.add(input=torch.add(1, hidden, alpha=2), other=hidden, alpha=0.5)
    each: Tensor = torch.vmap(lambda row, weight: row * weight)(added, hidden.detach()[:, 0])
    return torch._foreach_add([each], [hidden], alpha=0.0)[0]


def with_a_hook_for_each(net: Later, hidden: Tensor, step: int) -> Tensor:
    hidden = hidden.tanh()
    if step >= BEGINS:
        hidden.register_hook(lambda gradient: gradient * 0.5)
    return hidden


def with_numbers_between_limits(net: Later, hidden: Tensor, step: int) -> Tensor:
    """Of a parameter, or of each sample."""
    bias = net.more.bias
    scale = torch.minimum(bias.norm().clamp(max=50.0), bias.sum().relu()) + (bias[0] - 1).max(0)[0]
    scale = torch.max(bias.new_tensor(float("-inf")), scale)
    return hidden * scale / torch.vmap(lambda row: row.norm().clamp(min=1e-3))(hidden)[:, None]


def one_of_three_by_chance(net: Later, hidden: Tensor, step: int) -> Tensor:
    """By the one in between no check comes but that of its pass; and a number is kept where there was none."""
    net.size = hidden.shape[1]
    with rt.draw_alike():
        drawn = torch.rand(1)
    if drawn < 0.05:
        return hidden.relu()
    return net.more(hidden).tanh() if drawn < 0.45 or 0.55 < drawn < 0.95 else hidden.sin()


IN_PARTS = {
    one.__name__: one
    for one in (
        another_layer, more_turns, a_penalty_that_grows, one_of_two_layers, every_tenth_call, one_of_two_by_a_flag,
        sums_with_weights, one_of_three_by_chance, with_numbers_between_limits, with_a_hook_for_each,
    )
}  # fmt: skip

Followed = dict[str, tuple[list[list[float]], bool]]


def follow_all() -> Followed:
    """Of each model: the loss, the buffer and the parameters after each step; and whether it was computed whole."""
    torch.set_default_dtype(torch.float64)
    return {name: _follow(one) for name, one in {**APART, **IN_PARTS}.items()}


def _follow(compute: Compute) -> tuple[list[list[float]], bool]:
    torch.manual_seed(1)
    random.seed(3)
    net, given = Later(compute), torch.Generator().manual_seed(2)
    rt.data_parallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    found = []
    for step in range(STEPS):
        loss = (net(torch.randn(8, 4, generator=given), step) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        held = [one.detach().flatten() for one in (net.book, *net.parameters())]
        found.append([loss.item(), *torch.cat(held).tolist()])
    whole = any(one.given_up for one in _shared.values() if one._model() is net)
    return found, whole


@functools.cache
def followed(ranks: int) -> list[Followed]:
    return on_ranks(follow_all, ranks=ranks)


@pytest.mark.parametrize("name", APART)
def test_what_mixes_samples_later_is_computed_whole_from_the_first_call_on_that_it_is_in(name: str) -> None:
    (one,), (first, second) = followed(1), followed(2)
    assert first[name] == second[name]
    assert first[name][1]
    _assert_close(first[name][0], one[name][0])


@pytest.mark.parametrize("name", IN_PARTS)
def test_what_each_sample_is_given_later_is_shared_as_before(name: str) -> None:
    (one,), (first, second) = followed(1), followed(2)
    assert first[name] == second[name]
    assert not first[name][1]
    _assert_close(first[name][0], one[name][0])


def _assert_close(found: list[list[float]], expected: list[list[float]]) -> None:
    assert max(abs(a - b) for of, to in zip(found, expected, strict=True) for a, b in zip(of, to, strict=True)) < 1e-9


class Normalised(nn.Module):
    """A trace that is not kept to be given back: of BatchNorm alone."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.last = nn.BatchNorm1d(4), nn.Linear(4, 2)

    def forward(self, samples: Tensor, step: int) -> Tensor:
        hidden = self.norm(samples)
        out: Tensor = self.last(_apart(hidden).square() if step >= BEGINS else hidden)
        return out


class Moving(nn.Module):
    """Moves its target, and counts in what is no module: what is new, a check does not come by."""

    def __init__(self) -> None:
        super().__init__()
        self.online, self.target, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.calls = [0]

    def forward(self, samples: Tensor, step: int) -> Tensor:
        self.calls[0] += 1
        with torch.no_grad():
            self.target.weight.lerp_(self.online.weight, 0.01)
        hidden = self.online(samples)
        out: Tensor = self.last(hidden.tanh() if self.calls[0] == BEGINS + 1 else hidden)
        return out


def end_loudly(make: Callable[[], nn.Module]) -> str:
    torch.manual_seed(1)
    net = make()
    rt.data_parallel(net)
    for step in range(STEPS):
        try:
            net(torch.randn(8, 4), step).sum().backward()
        except RanksParted as parted:
            return str(parted)
    return ""


@pytest.mark.parametrize("make", [Normalised, Moving])
def test_what_cannot_be_given_back_ends_the_run(make: Callable[[], nn.Module]) -> None:
    first, second = on_ranks(end_loudly, make)
    assert first == second
    name = make.__name__
    assert first.startswith(f"distify: {name} (call 13) is not made up of parts: from call 13 on it computes otherwise")
    assert "it has left there what cannot be taken back" in first
