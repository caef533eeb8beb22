"""Forward passes that write: each batch once, as a whole, on every rank; the modules that they call are shared."""

from __future__ import annotations

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.models import shared_model
from ranks import on_ranks
from torch import Tensor, nn


class Writing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 3).double(), nn.Linear(3, 1).double()

    def forward(self, rows: Tensor) -> Tensor:
        rt.compute_whole()
        hidden: Tensor = self.inner(rows)
        TOLD.append(f"{len(rows)} {hidden.mean().item():.9f}")
        return self.outer(hidden.tanh())  # type: ignore[no-any-return]


TOLD: list[str] = []


def _trained() -> tuple[list[str], list[float], list[bool]]:
    TOLD.clear()
    torch.manual_seed(0)
    model = nn.Sequential(Writing(), nn.Linear(1, 1).double())
    rt.data_parallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for turn in range(4):
        rows = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(turn))
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
    writing = model[0]
    assert isinstance(writing, Writing)
    shared = [one is not None and not one.given_up for one in map(shared_model, (model, writing, writing.inner))]
    return TOLD, [one for part in model.parameters() for one in part.detach().flatten().tolist()], shared


def test_each_batch_is_written_once_and_whole() -> None:
    ((told, weights, _),) = on_ranks(_trained, ranks=1)
    for found, trained, shared in on_ranks(_trained):
        assert found == told
        assert trained == pytest.approx(weights, abs=1e-12)
        assert shared == [False, False, True]


def test_where_nothing_is_shared_it_does_nothing() -> None:
    rt.compute_whole()


class Late(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = nn.Linear(4, 1), 0

    def forward(self, rows: Tensor) -> Tensor:
        self.calls += 1
        if self.calls > 4:
            rt.compute_whole()
        return self.inner(rows)  # type: ignore[no-any-return]


def _late() -> tuple[list[float], int, str]:
    torch.manual_seed(0)
    model = Late()
    rt.data_parallel(model)
    for turn in range(8):
        model(torch.randn(6, 4, generator=torch.Generator().manual_seed(turn))).square().mean().backward()
    shared = shared_model(model)
    gradients = [one for part in model.parameters() if part.grad is not None for one in part.grad.flatten().tolist()]
    return gradients, model.calls, shared.given_up if shared is not None else ""


def test_a_pass_that_says_so_too_late_is_computed_whole_from_then_on() -> None:
    ((expected, calls, _),) = on_ranks(_late, ranks=1)
    for found, counted, why in on_ranks(_late):
        assert found == pytest.approx(expected, abs=1e-5)
        assert counted == calls
        assert why.startswith("a part of the batch raises ")
        assert "has begun with a part of the batch: let it say `rt.compute_whole()`" in why
