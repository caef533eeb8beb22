"""What a shared pass leaves outside of its model: never one rank's part that is taken for the whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared import alike
from distify_runtime.shared.models import shared_model
from ranks import on_ranks
from torch import Tensor, nn


class Holder:
    """No module: a trainer, a logger, a record."""

    def __init__(self) -> None:
        self.hidden, self.total, self.seconds, self.calls = torch.zeros(()), 0.0, 0.0, 0
        self.active, self.steps = torch.zeros(7), torch.zeros(1)
        self.history: list[Tensor] = []
        self.table: Tensor | None = None

    def feed(self, hidden: Tensor) -> None:
        self.hidden = hidden

    def hold(self, sample: Tensor) -> Tensor:
        self.held = sample  # under `vmap`: stands for a row, and has no memory of its own
        return sample * 2


class Net(nn.Module):
    def __init__(self, leave: Callable[[Holder, Tensor], Any]) -> None:
        super().__init__()
        self.body, self.head, self.holder, self.leave = nn.Linear(5, 7), nn.Linear(7, 3), Holder(), leave
        self.sizes: list[int] = []

    def forward(self, samples: Tensor) -> Tensor:
        hidden = self.body(samples).tanh()
        self.leave(self.holder, hidden)
        out: Tensor = self.head(hidden)
        return out


def whole(step: int, size: int = 8) -> Tensor:
    return torch.randn(size, 5, generator=torch.Generator().manual_seed(step), dtype=torch.float64)


def _add(holder: Holder, hidden: Tensor) -> None:
    holder.total += hidden.detach().mean().item()


def _count_active(holder: Holder, hidden: Tensor) -> None:
    holder.active += (hidden > 0).sum(dim=0)


def _append(holder: Holder, hidden: Tensor) -> None:
    holder.history.append(hidden.detach())


#: What a model leaves, and what the script makes of it.
LEFT: dict[str, tuple[Callable[[Holder, Tensor], Any], Callable[[Holder], Tensor]]] = {
    "trained on": (Holder.feed, lambda holder: holder.hidden.square().mean()),
    "a metric": (lambda holder, hidden: holder.feed(hidden.detach()), lambda holder: holder.hidden.std()),
    "a mean": (lambda holder, hidden: holder.feed(hidden.detach().mean()), lambda holder: holder.hidden),
    "a number": (_add, lambda holder: torch.tensor(holder.total)),
    "a tensor that is counted into": (_count_active, lambda holder: holder.active.std()),
    "a list that grows": (_append, lambda holder: torch.cat(holder.history).std() * len(holder.history)),
    "a list, beside what has no memory": (
        lambda holder, hidden: (_append(holder, hidden), torch.vmap(holder.hold)(hidden.detach())),
        lambda holder: torch.cat(holder.history).std(),
    ),
    "a view": (lambda holder, hidden: holder.feed(hidden.detach()[:, 1]), lambda holder: holder.hidden.std()),
}


def _train(name: str, ranks: int = 2) -> Any:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    leave, use = LEFT[name]
    net = Net(leave)
    rt.data_parallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    used = []
    for step in range(4):
        optimizer.zero_grad()
        out = net(whole(step))
        left = use(net.holder)
        (out.square().mean() + left).backward()
        optimizer.step()
        used.append(left.item())
    found = shared_model(net)
    return used, torch.cat([one.flatten() for one in net.parameters()]).tolist(), found and found.given_up


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_in_an_object_is_that_of_one_process(name: str) -> None:
    ((used, weights, _),) = on_ranks(_train, name, ranks=1)
    for found in on_ranks(_train, name):
        assert found[:2] == (pytest.approx(used, abs=1e-12), pytest.approx(weights, abs=1e-12))
        assert "of the batch in " in found[2]
        assert "Holder" in found[2] or "holder" in found[2] or "list" in found[2]


def _count(holder: Holder, hidden: Tensor) -> None:
    holder.calls += 1


def _count_in_a_tensor(holder: Holder, hidden: Tensor) -> None:
    holder.steps += 1


def _time(holder: Holder, hidden: Tensor) -> None:
    holder.seconds += time.perf_counter()


def _tabulate(holder: Holder, hidden: Tensor) -> None:
    if holder.table is None:
        holder.table = torch.arange(7.0) * 2


def _local(holder: Holder, hidden: Tensor) -> None:
    cycle: list[Any] = [hidden]
    cycle.append(cycle)


def _harmless(leave: Callable[[Holder, Tensor], Any]) -> Any:
    net = Net(leave)
    rt.data_parallel(net)
    for step in range(4):
        net(whole(step).float()).square().mean().backward()
    found = shared_model(net)
    return found and found.given_up, net.holder.calls, int(net.holder.steps)


@pytest.mark.parametrize("leave", [_count, _count_in_a_tensor, _time, _tabulate, _local])
def test_what_does_not_follow_from_the_batch_is_no_reason_not_to_share(leave: Callable[[Holder, Tensor], Any]) -> None:
    assert on_ranks(_harmless, leave) == [("", 4 * (leave is _count), 4 * (leave is _count_in_a_tensor))] * 2


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.samples, self.numbers, self.first = nn.Linear(5, 3), 0, 0, 0

    def forward(self, samples: Tensor) -> Tensor:
        out: Tensor = self.net(samples)
        self.samples, self.numbers = len(out), out.numel()
        self.first = self.first or len(samples)
        return out


def _sizes() -> Any:
    net = Counting()
    rt.data_parallel(net)
    found = []
    for step, size in enumerate((8, 8, 4, 8, 7, 2, 4)):
        net(whole(step, size).float()).square().mean().backward()
        found.append((net.samples, net.numbers, net.first))
    shared = shared_model(net)
    return found, shared and shared.given_up


def test_attributes_that_count_samples_count_all_of_them() -> None:
    expected = [(size, 3 * size, 8) for size in (8, 8, 4, 8, 7, 2, 4)]
    assert on_ranks(_sizes) == [(expected, "")] * 2


def _rounded_apart(tensor: Tensor) -> Tensor:
    """As on a device that adds in any order: the last digits of a gradient are each rank's own."""
    tensor.register_hook(lambda gradient: gradient * (1 + 1e-9 * rt.rank()))
    return tensor


class Coupled(nn.Module):
    """Is computed whole by every rank, since it compares the samples of a batch; its head is shared."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.ones(5)), nn.Linear(5, 3)

    def forward(self, samples: Tensor) -> Tensor:
        scaled = _rounded_apart(samples * self.scale)
        out: Tensor = self.head(scaled - scaled.mean(0))
        return out


class Rarely(Coupled):
    """The same, for batches with a large value in them."""

    def forward(self, samples: Tensor) -> Tensor:
        scaled = _rounded_apart(samples * self.scale)
        out: Tensor = self.head(scaled - scaled.mean(0) if (samples > 3).any() else scaled)
        return out


class Words(nn.Module):
    """Is computed whole, and has sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.head = nn.Embedding(5, 5, sparse=True), nn.Linear(5, 3)

    def forward(self, samples: Tensor) -> Tensor:
        found = _rounded_apart(self.scale(samples.argmax(1)))
        out: Tensor = self.head(found - found.mean(0))
        return out


def rounded_apart(kind: type[nn.Module], sizes: list[int]) -> list[Tensor]:
    alike.rounds_alike = lambda _: False
    torch.manual_seed(0)
    net: Any = kind().double()
    rt.data_parallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step, size in enumerate(sizes):
        optimizer.zero_grad()
        samples = whole(step, size)
        samples[0, 0] += 9 * (step == 4)
        net(samples).square().mean().backward()
        optimizer.step()
    return [parameter.detach() for parameter in net.parameters()]


@pytest.mark.parametrize(
    ("kind", "sizes"), [(Coupled, [8] * 6), (Words, [8] * 6), (Rarely, [8] * 6), (Rarely, [8, 8, 1, 8])]
)
def test_what_every_rank_computes_whole_stays_alike(kind: type[nn.Module], sizes: list[int]) -> None:
    """Of a model that is computed whole, a call of one that is shared, and a batch that is too small to be."""
    first, second = on_ranks(rounded_apart, kind, sizes)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)


class Pairs(nn.Module):
    """Skip-gram's: two tables of which each step touches some rows; some of those have a gradient of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.of_words, self.of_contexts = (nn.Embedding(30, 4, sparse=True) for _ in range(2))

    def forward(self, words: Tensor, contexts: Tensor) -> Tensor:
        return (self.of_words(words) * self.of_contexts(contexts)).relu().sum(1)


def with_sparse_adam(is_shared: bool) -> list[Tensor]:
    torch.manual_seed(0)
    net = Pairs().double()
    if is_shared:
        rt.data_parallel(net)
    optimizer = torch.optim.SparseAdam(net.parameters(), lr=0.1)
    for step, size in enumerate([8, 8, 7, 1, 8]):
        drawn = torch.Generator().manual_seed(step)
        words, contexts = (torch.randint(30, (size,), generator=drawn) for _ in range(2))
        optimizer.zero_grad()
        nn.functional.logsigmoid(net(words, contexts)).mean().neg().backward()
        assert all(one.grad is not None and one.grad.is_sparse for one in net.parameters())
        optimizer.step()
    return [parameter.detach() for parameter in net.parameters()]


def test_sparse_gradients_stay_sparse_with_the_rows_of_all_ranks() -> None:
    alone = with_sparse_adam(False)
    for found in on_ranks(with_sparse_adam, True):
        for one, other in zip(found, alone, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


class Loaded(nn.Module):
    """A router that keeps its load in a buffer: of its own, or of a module that it has no part of."""

    def __init__(self, ledger: list[nn.Module]) -> None:
        super().__init__()
        self.router, self.ledger = nn.Linear(5, 3), ledger
        self.register_buffer("load", torch.zeros(3))

    def forward(self, samples: Tensor) -> Tensor:
        scores: Tensor = self.router(samples).softmax(1)
        keeper = self.ledger[0] if self.ledger else self
        keeper.load = scores.detach().mean(0)
        return scores


class Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, samples: Tensor) -> Tensor:
        out: Tensor = self.inner(samples)
        return out


def _loads(of_another: bool, ranks: int = 2) -> Any:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    keeper = Loaded([])
    net = Outer(Loaded([keeper] * of_another))
    rt.data_parallel(net)
    loads = []
    for step in range(2):
        net(whole(step)).square().mean().backward()
        loads += (keeper if of_another else net.inner).load.tolist()
    found = shared_model(net)
    return loads, found and found.given_up


def test_a_buffer_is_said_to_be_one_of_the_module() -> None:
    ((expected, _),) = on_ranks(_loads, False, ranks=1)
    for loads, why in on_ranks(_loads, False):
        assert loads == pytest.approx(expected, abs=1e-12)
        assert why == "it leaves a part of the batch in `Outer.inner.load`, a buffer of the module"


def test_a_buffer_of_another_module_is_outside() -> None:
    ((expected, _),) = on_ranks(_loads, True, ranks=1)
    for loads, why in on_ranks(_loads, True):
        assert loads == pytest.approx(expected, abs=1e-12)
        assert why == "it leaves a part of the batch in `Loaded.load`, outside of its modules"
