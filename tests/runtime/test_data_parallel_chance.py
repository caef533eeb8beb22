"""What models decide by chance: alike on all ranks, as in one process, also while parts are held against the whole."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import numpy
import pytest
import torch
from distify_runtime.shared.models import shared_model
from ranks import on_ranks
from torch import Tensor, nn

CALLS = 12  # with those that are checked


class Skipping(nn.Module):
    def __init__(self, coin: Callable[[nn.Module], float], alike: bool = True) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first, self.last, self.alike = nn.Linear(5, 7), nn.Linear(7, 3), alike
        self.coin, self.own = coin, numpy.random.default_rng(5)
        self.own_python, self.own_torch = random.Random(5), torch.Generator().manual_seed(5)

    def forward(self, samples: Tensor) -> Tensor:
        if self.alike:
            with rt.draw_alike():
                coin = self.coin(self)
        else:
            coin = self.coin(self)
        out: Tensor = self.last(self.first(samples) if coin < 0.5 else self.first(samples).tanh())
        return out


def _of_python(model: nn.Module) -> float:
    return random.random()


def _of_numpy(model: nn.Module) -> float:
    return float(numpy.random.rand())


def _of_torch(model: nn.Module) -> float:
    return float(torch.rand(1))


def _of_its_own_numpy(model: Any) -> float:
    return float(model.own.random())


def _of_its_own_python(model: Any) -> float:
    return float(model.own_python.random())


def _of_its_own_torch(model: Any) -> float:
    return float(torch.randperm(100, generator=model.own_torch)[0]) / 100


def _trained(coin: Callable[[nn.Module], float], alike: bool = True) -> tuple[list[Any], bool]:
    net = Skipping(coin, alike)
    random.seed(4), numpy.random.seed(4), torch.manual_seed(4)
    batch = torch.randn(CALLS, 8, 5, generator=torch.Generator().manual_seed(1))
    rt.data_parallel(net)
    optimizer, outputs = torch.optim.SGD(net.parameters(), 0.1), []
    for samples in batch:
        out = net(samples)
        optimizer.zero_grad()
        out.square().mean().backward()
        optimizer.step()
        outputs.append(out.detach())
    after = [random.random(), float(numpy.random.rand())]
    shared = shared_model(net)
    return [torch.stack(outputs), after], shared is not None and not shared.given_up


@pytest.mark.parametrize("alike", [True, False], ids=["said", "seen"])
@pytest.mark.parametrize("coin", [_of_python, _of_numpy, _of_torch])
def test_what_is_drawn_for_a_batch_is_what_one_process_draws(coin: Callable[[nn.Module], float], alike: bool) -> None:
    """Whether it is said or not: a part of a batch takes as many numbers as the whole."""
    alone, _ = _trained(coin, alike)
    for (outputs, after), is_shared in on_ranks(_trained, coin, alike):
        assert is_shared
        torch.testing.assert_close(outputs, alone[0])
        assert after == alone[1]  # and the script's draws go on as they do there


@pytest.mark.parametrize("coin", [_of_its_own_python, _of_its_own_numpy, _of_its_own_torch])
def test_a_check_puts_back_the_generators_that_a_model_has(coin: Callable[[nn.Module], float]) -> None:
    alone, _ = _trained(coin, False)
    for (outputs, _), is_shared in on_ranks(_trained, coin, False):
        assert is_shared
        torch.testing.assert_close(outputs, alone[0])


class Dropping(nn.Module):
    """Leaves the branch out of some samples, in which each looks at all of them. `before`: what else it draws first."""

    def __init__(self, dropping: str, before: int) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.body, self.dropping, self.before = nn.Linear(5, 7), dropping, before

    def forward(self, samples: Tensor) -> Tensor:
        for _ in range(self.before):
            nn.functional.dropout(samples, 0.1)
        hidden = self.body(samples)
        branch = hidden - hidden.mean(0)
        if self.dropping == "dropout":
            return hidden + branch * nn.functional.dropout(samples.new_ones(len(samples), 1), 0.5)
        if self.dropping == "filled":
            return hidden + branch * samples.new_empty(len(samples), 1).bernoulli_(0.5)
        return hidden + branch * torch.bernoulli(torch.full_like(samples[:, :1], 0.5))


def _is_whole(dropping: str, before: int) -> bool:
    net = Dropping(dropping, before)
    rt.data_parallel(net)
    for _ in range(3):
        net(torch.randn(8, 5)).sum().backward()
    shared = shared_model(net)
    return shared is not None and bool(shared.given_up)


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("dropping", ["dropout", "filled", "made"])
def test_what_chance_leaves_out_is_not_left_out_of_a_check(dropping: str, before: int) -> None:
    """A mask with one entry for each sample would else leave out all of a branch, or nothing."""
    assert on_ranks(_is_whole, dropping, before) == [True, True]


class Deciding(nn.Module):
    """A part of a batch that has a large sample goes another way: such calls are taken back, and computed whole."""

    def __init__(self, alike: bool) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.body, self.norm, self.alike = nn.Linear(5, 7), nn.Linear(7, 7), alike

    def forward(self, samples: Tensor) -> Tensor:
        with rt.draw_alike() if self.alike else contextlib.nullcontext():
            factor = random.random()
        hidden = self.body(samples)
        if samples.max() > 5:
            hidden = self.norm(hidden)
        return hidden * factor


def _taken_back(alike: bool) -> list[float]:
    net = Deciding(alike)
    random.seed(4)
    rt.data_parallel(net)
    found = []
    for call in range(CALLS):
        samples = torch.ones(8, 5)
        samples[0] += 10 * (call % 4 == 3)
        out = net(samples)
        out.sum().backward()
        found.append(float(out.detach().sum()))
    return found


@pytest.mark.parametrize("alike", [True, False], ids=["said", "seen"])
def test_what_a_call_drew_that_is_taken_back_is_drawn_once(alike: bool) -> None:
    alone = _taken_back(alike)
    for found in on_ranks(_taken_back, alike):
        assert found == pytest.approx(alone, rel=1e-5)


class Scaling(nn.Module):
    """A number for each sample; `coin`: and one for all, of the same stream or of another."""

    def __init__(self, source: str, coin: str) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.body, self.source, self.coin = nn.Linear(5, 5), source, coin

    def forward(self, samples: Tensor) -> Tensor:
        if self.source == "dropout":
            factors = nn.functional.dropout(torch.ones(len(samples), 64))[:, :, None]
        else:
            draw = random.random if self.source == "python" else numpy.random.rand
            factors = torch.tensor([[float(draw())] for _ in samples])
        if self.coin:
            factors = factors + (float(numpy.random.rand()) if self.coin == "numpy" else random.random())
        return factors.flatten(1) * self.body(samples).sum(1, keepdim=True)


def _scaled(source: str, coin: str) -> Tensor:
    net = Scaling(source, coin)
    random.seed(4), numpy.random.seed(4), torch.manual_seed(4)
    rt.data_parallel(net)
    out = net(torch.ones(8, 5))
    out.sum().backward()
    for _ in range(3):
        out = net(torch.ones(8, 5))
        out.sum().backward()
    return out.detach()


@pytest.mark.parametrize(
    ("source", "coin"),
    [("python", ""), ("numpy", ""), ("dropout", ""), ("python", "python"), ("python", "numpy"), ("dropout", "python")],
)
def test_what_is_drawn_for_each_sample_is_another_number_on_each_rank(source: str, coin: str) -> None:
    one, other = on_ranks(_scaled, source, coin)
    assert torch.equal(one, other)
    rows = {tuple(row.tolist()) for row in one}
    assert len(rows) == 8


class Styled(nn.Module):
    """Of which each sample has a style of its own, drawn as if it were one for all of them."""

    def __init__(self, each: bool) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.last, self.each = nn.Linear(5, 3), each

    def forward(self, samples: Tensor) -> Tensor:
        with rt.draw_alike():
            style = torch.randn(len(samples) if self.each else 1, 5)
        out: Tensor = self.last(samples + style)
        return out


def _styles(each: bool) -> list[int]:
    """How many different outputs there are of a batch of equal samples."""
    torch.manual_seed(4)
    net = Styled(each)
    rt.data_parallel(net)
    return [len(set(net(torch.ones(8, 5))[:, 0].tolist())) for _ in range(CALLS)]


@pytest.mark.parametrize(("each", "styles"), [(True, 8), (False, 1)])
def test_what_is_drawn_for_each_sample_is_never_drawn_alike(each: bool, styles: int) -> None:
    assert on_ranks(_styles, each) == [[styles] * CALLS] * 2
