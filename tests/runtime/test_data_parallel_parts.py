"""Parts that differ from slices of the whole batch because they are small, or of another size than those checked."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.models import _shared, shared_model
from ranks import on_ranks
from torch import Tensor, nn
from torch.nn import functional as F

from tests.grid import RANKS

#: Of the batches, by the number of ranks. Parts of one sample come first in calls that no check of drift falls on.
SIZES = {2: (8, 8, 8, 3, 8, 7, 2, 5, 4, 3), 4: (16, 16, 16, 6, 16, 13, 4, 11, 8, 5)}
STEPS_OF_ONE = (5, 5, 5, 1, 5, 1, 5, 5, 1, 5)


class Head(nn.Module):
    def __init__(self, out: int = 1) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(5, 7), nn.Linear(7, out)

    def computed(self, samples: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(samples).tanh())
        return out


class Squeezed(Head):
    def forward(self, samples: Tensor) -> Tensor:
        return self.computed(samples).squeeze()


class SqueezedFirst(Head):
    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        out = self.computed(samples)
        return out.squeeze(0), out.mean(-1).squeeze()


class OtherForOne(Head):
    def forward(self, samples: Tensor) -> Tensor:
        out = self.computed(samples)
        return 2 * out if len(samples) == 1 else out


class Fails(Head):
    def forward(self, samples: Tensor) -> Tensor:
        first, second = self.computed(samples)[:, 0].chunk(2)  # one alone cannot be
        return torch.cat([first, second])


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, 2), nn.BatchNorm1d(2))

    def forward(self, samples: Tensor) -> Tensor:
        out: Tensor = self.net(samples)
        return out


class Loss(Head):
    def forward(self, samples: Tensor) -> Tensor:
        return F.mse_loss(self.computed(samples), samples[:, :1]) + self.computed(samples).square().mean()


class Kept(Head):
    """As many rows as there are samples; later fewer."""

    def forward(self, samples: Tensor) -> Tensor:
        return self.computed(samples)[samples[:, 0] < 1e9]


class Counting(Head):
    def forward(self, samples: Tensor) -> Tensor:
        return self.computed(samples) / samples.size(0)


class WithTable(Head):
    """A second argument that has the batch's size by chance."""

    def forward(self, samples: Tensor, table: Tensor) -> Tensor:
        return self.computed(samples + table[: len(samples)])


def batch(step: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(100 + step))


def _few(step: int, size: int) -> Tensor:
    """Batches of which the last have rows that a mask takes away."""
    samples = batch(step, size, 5)
    if step > 2:
        samples[:, 0] = torch.where(torch.arange(size) < max(1, size - step // 2), samples[:, 0], 1e10)
    return samples


Arguments = Callable[[int, int, int], tuple[Tensor, ...]]
ROWS: Arguments = lambda step, size, _: (batch(step, size, 5),)  # noqa: E731
#: The model, what it is given in each step (by the batch's size and the usual one), and whether it is computed whole.
CASES: dict[str, tuple[Callable[[], nn.Module], Arguments, bool]] = {
    "squeeze": (Squeezed, ROWS, False),
    "squeeze of sequences": (Squeezed, lambda step, size, _: (batch(step, size, 4, 5),), False),
    "squeeze of sequences with steps first": (
        Squeezed, lambda step, size, _: (batch(step, STEPS_OF_ONE[step], size, 5),), False,
    ),
    "squeeze of steps": (Squeezed, lambda step, size, _: (batch(step, size, STEPS_OF_ONE[step], 5),), False),
    "squeeze of the first dimension": (lambda: SqueezedFirst(3), ROWS, False),
    "another way for one sample": (OtherForOne, ROWS, False),
    "an error for one sample": (Fails, ROWS, False),
    "batch norm": (Normed, ROWS, False),
    "a mean inside": (Loss, ROWS, False),
    "rows by a mask": (Kept, lambda step, size, _: (_few(step, size),), False),
    "divided by the number of samples": (Counting, ROWS, True),
    "a table as long as the batch": (
        WithTable, lambda step, size, most: (batch(step, size, 5), batch(step, most, 5)), False,
    ),
}  # fmt: skip


def follow(name: str, ranks: int) -> tuple[list[float], list[tuple[int, ...]], list[float], dict[str, str]]:
    """Losses, the outputs' shapes, the parameters and buffers at the end, and why models were computed whole."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    make, arguments, _ = CASES[name]
    net, other = make(), nn.Linear(5, 1)
    rt.data_parallel(net, other)
    optimizer = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.005)
    losses, shapes = [], []
    for step, size in enumerate(SIZES[ranks]):
        optimizer.zero_grad()
        found = net(*arguments(step, size, max(SIZES[ranks])))
        outputs = found if isinstance(found, tuple) else (found,)
        shapes += [tuple(one.shape) for one in outputs]
        loss = other(batch(step, 8, 5)).mean()
        for one in outputs:
            loss = loss + one.square().mean() + one.mean(0).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    state = torch.cat([one.detach().double().flatten() for one in net.state_dict().values()]).tolist()
    return losses, shapes, state, {one.name: one.given_up for one in _shared.values()}


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", CASES)
def test_small_parts_follow_one_process(name: str, ranks: int) -> None:
    ((expected, expected_shapes, expected_state, _),) = on_ranks(follow, name, ranks, ranks=1)
    everyone = on_ranks(follow, name, ranks, ranks=ranks)
    assert all(one == everyone[0] for one in everyone)
    losses, shapes, state, whole = everyone[0]
    assert shapes == expected_shapes
    assert losses == pytest.approx(expected, abs=1e-12)
    assert state == pytest.approx(expected_state, abs=1e-12)
    assert any(whole.values()) == CASES[name][2], whole


class Trimmed(Head):
    """As long as the longest of the samples it sees."""

    def forward(self, samples: Tensor, lengths: Tensor) -> Tensor:
        return self.computed(samples)[:, : int(lengths.max())]


def _trimmed() -> Any:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    net, losses = Trimmed(), []
    rt.data_parallel(net)
    for step in range(7):
        lengths = torch.full((8,), 4)
        if step == 5:  # which is not checked
            lengths[:4] = 3
        loss = net(batch(step, 8, 4, 5).double(), lengths).square().sum()
        loss.backward()
        losses.append(loss.item())
    gradients = torch.cat([one.grad.flatten() for one in net.parameters() if one.grad is not None])
    shared = shared_model(net)
    return losses, gradients.tolist(), shared and shared.given_up


def test_parts_that_do_not_go_together_are_computed_whole_and_said_with_their_shapes() -> None:
    ((losses, gradients, _),) = on_ranks(_trimmed, ranks=1)
    for *found, why in on_ranks(_trimmed):
        assert found == [pytest.approx(losses, abs=1e-12), pytest.approx(gradients, abs=1e-12)]
        assert "tensor 1 of the outputs has shapes (4, 3, 1), (4, 4, 1) on the ranks" in why


class Linked(nn.Module):
    """Rows that are mixed by a sparse matrix: that layer cannot be split, the next one can."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.mix, self.head = Mix(), nn.Linear(7, 3)

    def forward(self, links: Tensor, samples: Tensor) -> Tensor:
        out: Tensor = self.head(self.mix(links, samples))
        return out


class Mix(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(5, 7)

    def forward(self, links: Tensor, samples: Tensor) -> Tensor:
        return torch.sparse.mm(links, self.body(samples))


def _linked() -> tuple[list[Any], bool]:
    net = Linked()
    rt.data_parallel(net)
    links = (torch.eye(8) + torch.ones(8, 8).triu(6)).to_sparse()
    net(links, torch.arange(40.0).reshape(8, 5) / 40).square().sum().backward()
    shared = shared_model(net.head)
    return [one.grad for one in net.parameters()], shared is not None and shared.is_shared


class Graph(nn.Module):
    """Of which no part can be shared, and no sparse matrix be cut to try it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5, 3))

    def forward(self, samples: Tensor, links: Tensor) -> Tensor:
        return torch.mm(links, torch.mm(samples, self.weight))


def _given_up() -> str:
    net = Graph()
    rt.data_parallel(net)
    net(torch.arange(40.0).reshape(8, 5), (torch.eye(8) + torch.ones(8, 8).triu(6)).to_sparse())
    found = shared_model(net)
    return "" if found is None else found.given_up


def test_a_sparse_matrix_is_never_cut_and_never_named_as_the_reason() -> None:
    for said in on_ranks(_given_up):
        assert "Expected dim 0 size 8, got 5" in said


def test_what_is_given_a_sparse_tensor_is_computed_whole_and_the_rest_shared() -> None:
    alone, _ = _linked()
    for gradients, is_shared in on_ranks(_linked):
        assert is_shared
        torch.testing.assert_close(gradients, alone)


class Meshed(nn.Module):
    """A graph's matrix in a buffer, and one beside the buffers."""

    def __init__(self, layout: torch.layout) -> None:
        super().__init__()
        torch.manual_seed(1)
        mesh = torch.eye(5) + torch.ones(5, 5).triu(3)
        self.register_buffer("mesh", mesh.to_sparse(layout=layout))
        self.other, self.head = mesh.to_sparse(), nn.Linear(5, 3)

    def forward(self, samples: Tensor) -> Tensor:
        out: Tensor = self.head(torch.sparse.mm(self.other, torch.sparse.mm(self.mesh, samples.T)).T)
        return out


def _meshed(layout: torch.layout) -> tuple[list[Any], bool]:
    warnings.simplefilter("ignore")  # of what is a beta
    net = Meshed(layout)
    rt.data_parallel(net)
    for _ in range(3):
        net(torch.arange(40.0).reshape(8, 5) / 40).square().sum().backward()
    shared = shared_model(net)
    return [one.grad for one in net.parameters()], shared is not None and shared.is_shared


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_a_sparse_matrix_that_a_model_holds(layout: torch.layout) -> None:
    with warnings.catch_warnings():
        alone, _ = _meshed(layout)
    for gradients, is_shared in on_ranks(_meshed, layout):
        assert is_shared
        torch.testing.assert_close(gradients, alone)
