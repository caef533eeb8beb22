"""What a module is made with was drawn once, alike on all ranks: nothing that it computes is left to chance by that."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import conversion_of

SCRIPT = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 2)
        self.token = PARAMETER

    def forward(self, x):
        out = self.out(x) + TOKEN
        if out.norm().item() > 1e6:
            print("large")
        return out


def evaluate(model, loader):
    model.eval()
    losses = []
    for x, y in loader:
        with torch.no_grad():
            losses.append(criterion(model(x), y).item())
    return np.mean(losses)


loader = DataLoader(TensorDataset(torch.randn(24, 8), torch.randint(0, 2, (24,))), batch_size=6, shuffle=True)
val_loader = DataLoader(TensorDataset(torch.randn(24, 8), torch.randint(0, 2, (24,))), batch_size=6)
model, criterion = Net(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best, count = 1e9, 0
for epoch in range(5):
    model.train()
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    figure = evaluate(model, val_loader)
    if figure > best:
        break
    best = figure
"""
DRAWN = "nn.Parameter(torch.rand(1, 2))"


def reasons(parameter: str, token: str = "self.token") -> list[str]:
    """Why the script is not sharded."""
    conversion = conversion_of(SCRIPT.replace("PARAMETER", parameter).replace("TOKEN", token), options=Options())
    found = [one.message for one in conversion.of(Level.ADVICE) if one.code == "SHARE01"]
    assert (conversion.strategy is Strategy.SHARED) is bool(found)
    return found


@pytest.mark.parametrize(
    "parameter",
    [
        "nn.Parameter(torch.zeros(1, 2))",
        DRAWN,
        "nn.Parameter(torch.randn(1, 2) * 0.02)",
        "torch.nn.parameter.Parameter(data=torch.randn(1, 2))",
        "nn.ParameterList([nn.Parameter(torch.rand(2)) for _ in range(2)])[0]",
    ],
)
def test_a_parameter_is_no_draw(parameter: str) -> None:
    assert reasons(parameter) == []


@pytest.mark.parametrize("token", ["torch.rand(1)", "nn.Parameter(torch.rand(1))"])
def test_what_a_forward_pass_draws_is(token: str) -> None:
    assert any("decides by chance what the model computes" in why for why in reasons(DRAWN, token))


def test_a_mean_of_random_figures_draws_nothing() -> None:
    """What is random about them was drawn before, inside of the turns."""
    script = SCRIPT.replace("PARAMETER", DRAWN).replace("TOKEN", "torch.randn_like(self.token)")
    script = script.replace("out.norm().item() > 1e6", "x.dim() > 2")
    conversion = conversion_of(script, options=Options())
    assert not [one.message for one in conversion.findings if "`np.mean(losses)` draws" in one.message]
