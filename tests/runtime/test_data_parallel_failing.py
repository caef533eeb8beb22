"""Errors that a part of a batch raises; arguments that are not used yet; parameters that a first pass makes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import distify_runtime as rt
import pytest
import torch
from distify_runtime.shared.models import shared_model
from ranks import on_ranks
from torch import Tensor, nn

from tests.grid import RANKS

#: Steps whose batch has a sample, at this place, that is unlike all others.
RARE = {3: 1, 6: 7, 9: 4, 10: 0}


def _batch(step: int) -> Tensor:
    rows = torch.rand(8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
    if step in RARE:
        rows[RARE[step], 0] = 9
    return rows


class Net(nn.Module):
    def __init__(self, inside: Callable[[Net, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)
        self.inside = inside

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.norm(self.body(rows))
        out: Tensor = self.head(self.inside(self, rows, hidden))
        return out


def by_place(net: Net, rows: Tensor, hidden: Tensor) -> Tensor:
    """Of a part, some of these places are not there."""
    loud = (rows[:, 0] > 5).any()
    return hidden + hidden[[0, 3, 5, 7]].mean(0) if loud else hidden


def refuses(net: Net, rows: Tensor, hidden: Tensor) -> Tensor:
    """So does the whole batch."""
    if (rows[:, 0] > 5).any():
        raise ValueError("too large")
    return hidden


def refuses_before_the_norm(net: Net, rows: Tensor, hidden: Tensor) -> Tensor:
    return net.norm(refuses(net, rows, hidden))


def makes_a_parameter(net: Net, rows: Tensor, hidden: Tensor) -> Tensor:
    if not hasattr(net, "scale"):
        net.register_parameter("scale", nn.Parameter(torch.rand(hidden.shape[1])))
    scaled: Tensor = hidden * net.scale
    return scaled


def _trained(inside: Callable[[Net, Tensor, Tensor], Tensor]) -> tuple[list[float], int]:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    model = Net(inside)
    rt.data_parallel(model)
    refused = []
    for step in range(14):
        try:
            out = model(_batch(step))
        except ValueError as error:
            refused.append(float(step + 100 * (str(error) == "too large")))
            continue
        out.square().mean().backward()
        with torch.no_grad():
            for one in model.parameters():
                one -= 0.1 * (one.grad if one.grad is not None else 0)
                one.grad = None
    torch.set_default_dtype(torch.float32)
    shared = shared_model(model)
    calls = shared.forms.shared if shared is not None else 0
    return [*refused, *(one for part in model.state_dict().values() for one in part.flatten().tolist())], calls


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(
    ("inside", "calls"),
    [(by_place, 10), (refuses, 10), (refuses_before_the_norm, 10), (makes_a_parameter, 13)],
)
def test_ranks_follow_one_process(inside: Callable[[Net, Tensor, Tensor], Tensor], calls: int, ranks: int) -> None:
    ((expected, _),) = on_ranks(partial(_trained, inside), ranks=1)
    for found, shared in on_ranks(partial(_trained, inside), ranks=ranks):
        assert found == pytest.approx(expected, abs=1e-12)
        assert shared == calls


class Cell(nn.Module):
    """The largest of all rows; to some of these, by their numbers, those of a state are added."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 3)

    def forward(self, table: Tensor, chosen: Tensor, state: Tensor) -> Tensor:
        rows = torch.tanh(self.body(table))
        places = torch.where(chosen > 0)[0]
        if len(places):
            rows = rows.index_add(0, places, state[places])
        return rows.max(0).values


def _with_a_state() -> tuple[list[float], str]:
    torch.manual_seed(0)
    cell = Cell().double()
    rt.data_parallel(cell)
    table, state = torch.rand(16, 3).double(), torch.rand(20, 3).double()
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    for step in range(6):
        chosen = torch.zeros(16)
        chosen[[1, 15] if step else []] = 1
        optimizer.zero_grad()
        cell(table, chosen, state).square().mean().backward()
        optimizer.step()
    shared = shared_model(cell)
    found = [one for part in cell.parameters() for one in part.flatten().tolist()]
    return found, shared.given_up if shared is not None else ""


def test_an_argument_that_is_not_used_yet_is_not_split() -> None:
    ((expected, _),) = on_ranks(_with_a_state, ranks=1)
    for found, why in on_ranks(_with_a_state):
        assert found == pytest.approx(expected, abs=1e-12)
        assert why  # else it would be shared by an argument that does nothing, until it does
