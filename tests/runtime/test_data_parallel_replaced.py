"""Models that put another parameter in the place of one of theirs: a codebook, a center, weights of norm one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.models import shared_model
from ranks import RankFailed, on_ranks
from torch import Tensor, nn


class Replacing(nn.Module):
    def __init__(self, replaced: Callable[[Replacing, Tensor], nn.Parameter], since: int = 0) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 3).double(), nn.Linear(3, 2).double()
        self.kept = nn.Parameter(torch.zeros(3, dtype=torch.float64))
        self.replaced, self.since, self.calls = replaced, since, 0

    def forward(self, rows: Tensor) -> Tensor:
        hidden: Tensor = self.first(rows)
        if self.training and self.calls >= self.since:
            self.kept = self.replaced(self, hidden)
        return self.last(hidden + 0.1 * self.kept)  # type: ignore[no-any-return]


def _center(model: Replacing, hidden: Tensor) -> nn.Parameter:
    return nn.Parameter(0.9 * model.kept + 0.1 * hidden.mean(0), requires_grad=False)


def _codes(model: Replacing, hidden: Tensor) -> nn.Parameter:
    return nn.Parameter(0.9 * model.kept + 0.1 * hidden.mean(0))


def _steady(model: Replacing, _: Tensor) -> nn.Parameter:
    return nn.Parameter(model.kept.detach() + 1, requires_grad=False)


def _trained(replaced: Callable[[Replacing, Tensor], nn.Parameter], since: int = 0) -> tuple[list[float], bool]:
    torch.manual_seed(0)
    model = Replacing(replaced, since)
    rt.data_parallel(model)
    optimizer = torch.optim.SGD([*model.first.parameters(), *model.last.parameters()], lr=0.1)
    for turn in range(6):
        model.calls = turn
        rows = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(turn))
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        figure = model(torch.ones(4, 4, dtype=torch.float64)).sum().item()
    shared = shared_model(model)
    found = [one for part in model.parameters() for one in part.detach().flatten().tolist()]
    return [*found, figure], shared is not None and not shared.given_up


@pytest.mark.parametrize(("replaced", "is_shared"), [(_center, False), (_codes, False), (_steady, True)])
def test_ranks_follow_one_process(replaced: Callable[[Replacing, Tensor], nn.Parameter], is_shared: bool) -> None:
    ((expected, _),) = on_ranks(partial(_trained, replaced), ranks=1)
    for found, shared in on_ranks(partial(_trained, replaced)):
        assert found == pytest.approx(expected, abs=1e-12)
        assert shared is is_shared


@pytest.mark.parametrize("replaced", [_center, _codes])
def test_what_begins_later_does_not_go_on_in_silence(replaced: Callable[[Replacing, Tensor], nn.Parameter]) -> None:
    with pytest.raises(RankFailed, match="distify: "):
        on_ranks(partial(_trained, replaced, 3))
