"""Gradients that a script asks of one argument, or output, of a model by another that it was made of."""

from __future__ import annotations

from typing import Any

import distify_runtime as rt
import pytest
import torch
from ranks import on_ranks
from torch import Tensor, nn


class Attribution(nn.Module):
    """How much each score matters to what was made of the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, scores: Tensor, hidden: Tensor) -> Tensor:
        (found,) = torch.autograd.grad(hidden.square().sum(), scores, create_graph=True, allow_unused=True)
        if found is None:
            return self.gain * scores.abs()
        return self.gain * (scores * found).abs()


def _trained(apart: bool) -> Any:
    torch.manual_seed(0)
    score, mix, model = nn.Linear(4, 3).double(), nn.Linear(3, 3).double(), Attribution()
    rt.data_parallel(score, mix, model)
    optimizer = torch.optim.SGD([*score.parameters(), *mix.parameters(), *model.parameters()], lr=0.1)
    losses = []
    for _ in range(3):
        batch = torch.randn(8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        scores = score(batch)
        hidden = mix(scores.detach() if apart else scores)
        loss = model(scores, hidden).mean() + hidden.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, torch.cat([one.detach().flatten() for one in (*score.parameters(), *mix.parameters())]).tolist()


@pytest.mark.parametrize("apart", [False, True])
def test_it_follows_one_process(apart: bool) -> None:
    """`apart`: where neither was made of the other, the whole call knows of no gradient either."""
    ((losses, weights),) = on_ranks(_trained, apart, ranks=1)
    for found, trained in on_ranks(_trained, apart):
        assert found == pytest.approx(losses, abs=1e-12)
        assert trained == pytest.approx(weights, abs=1e-12)


class Field(nn.Module):
    """A signed distance, and the points that it takes the gradient by: its own, or the features behind them."""

    def __init__(self, hidden: bool) -> None:
        super().__init__()
        self.first, self.last, self.hidden = nn.Linear(3, 8).double(), nn.Linear(8, 1).double(), hidden

    def forward(self, points: Tensor) -> dict[str, Tensor]:
        own = points.clone().detach().requires_grad_()
        features = self.first(own).tanh()
        return {"by": features if self.hidden else own, "distance": self.last(features)}


def _fitted(hidden: bool, again: bool) -> Any:
    torch.manual_seed(0)
    model = Field(hidden)
    rt.data_parallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for turn in range(3):
        generator = torch.Generator().manual_seed(turn)
        out = model(torch.randn(1 if hidden is False else 6, 9, 3, dtype=torch.float64, generator=generator))
        by, distance = out["by"], out["distance"]
        slope = torch.autograd.grad(distance, [by], torch.ones_like(distance), create_graph=True)[0]
        assert slope.shape == by.shape
        loss = distance.abs().mean() + (slope.norm(dim=-1) - 1).square().mean()
        if again:  # also by what hangs on it outside of the model
            (both,) = torch.autograd.grad(
                (distance.square() + by.square().sum(-1, keepdim=True)).sum(), by, retain_graph=True
            )
            loss = loss + (both * slope).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, torch.cat([one.detach().flatten() for one in model.parameters()]).tolist()


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("hidden", [False, True])
def test_the_gradient_of_one_output_by_another_that_it_was_made_of(hidden: bool, again: bool) -> None:
    ((losses, weights),) = on_ranks(_fitted, hidden, again, ranks=1)
    for found, trained in on_ranks(_fitted, hidden, again):
        assert found == pytest.approx(losses, abs=1e-12)
        assert trained == pytest.approx(weights, abs=1e-12)


def _looked_at(hidden: bool) -> Any:
    torch.manual_seed(0)
    model = Field(hidden)
    rt.data_parallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found: list[float] = []
    for turn in range(2):
        generator = torch.Generator().manual_seed(turn)
        out = model(torch.randn(6, 9, 3, dtype=torch.float64, generator=generator))
        by: Any = out["by"]
        by.register_hook(lambda gradient: found.append(gradient.abs().sum().item()))
        by.register_hook(lambda gradient: 2 * gradient)
        by.retain_grad()
        optimizer.zero_grad()
        (out["distance"].square().mean() + by.square().sum()).backward()
        optimizer.step()
        found.append(by.grad.square().sum().item())
    return found, torch.cat([one.detach().flatten() for one in model.parameters()]).tolist()


@pytest.mark.parametrize("hidden", [False, True])
def test_hooks_on_an_output_that_another_was_made_of(hidden: bool) -> None:
    ((seen, weights),) = on_ranks(_looked_at, hidden, ranks=1)
    for found, trained in on_ranks(_looked_at, hidden):
        assert found == pytest.approx(seen, abs=1e-12)
        assert trained == pytest.approx(weights, abs=1e-12)


class Centred(nn.Module):
    """One row for all samples, and what is made of it for each."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        centre = self.scale * 2
        return centre, (points - centre).square()


def _refused(again: bool) -> str:
    model = Centred()
    rt.data_parallel(model)
    centre, apart = model(torch.randn(8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    with pytest.raises(SystemExit) as refused:
        torch.autograd.grad(apart.sum(), centre, allow_unused=again)
    return str(refused.value)


@pytest.mark.parametrize("again", [False, True])
def test_by_what_all_samples_have_in_common_it_is_refused(again: bool) -> None:
    """A rank has its share of that gradient alone, and torch would say that there is none."""
    assert all("has no row for each sample" in said for said in on_ranks(_refused, again))
