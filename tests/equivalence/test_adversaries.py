"""Two networks that learn against each other: converted, two ranks take the steps of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence.conversions import assert_ranks_follow

HEAD = """\
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def weights_init(layer):
    if isinstance(layer, nn.Linear):
        nn.init.normal_(layer.weight, 0.0, 0.2)


torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 4), torch.randn(48, 3), torch.rand(48, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
maker = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
judge = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
maker.apply(weights_init)
judge.apply(weights_init)
to_make = torch.optim.Adam(maker.parameters(), lr=0.01, eps=1e-3)
to_judge = torch.optim.Adam(judge.parameters(), lr=0.01, eps=1e-3)
"""
BODIES = {
    "each in its turn": """
criterion = nn.BCEWithLogitsLoss()
for epoch in range(3):
    for real, noise, _ in loader:
        right = torch.full((real.size(0), 1), 1.0)
        wrong = torch.full((real.size(0), 1), 0.0)
        made = maker(noise)
        judge.zero_grad()
        on_real = criterion(judge(real), right)
        on_real.backward()
        on_made = criterion(judge(made.detach()), wrong)
        on_made.backward()
        to_judge.step()
        maker.zero_grad()
        criterion(judge(made), right).backward()
        to_make.step()
""",
    "one of them every other turn": """
for epoch in range(3):
    for turn, (real, noise, _) in enumerate(loader):
        made = maker(noise)
        to_judge.zero_grad()
        functional.softplus(-judge(real)).mean().backward()
        functional.softplus(judge(made.detach())).mean().backward()
        to_judge.step()
        if turn % 2 == 1:
            to_make.zero_grad()
            functional.softplus(-judge(made)).mean().backward()
            to_make.step()
""",
    "a penalty on the slopes between real and made": """
for epoch in range(3):
    for turn, (real, noise, share) in enumerate(loader):
        to_judge.zero_grad()
        made = maker(noise).detach()
        between = (share * real + (1 - share) * made).requires_grad_(True)
        heights = judge(between)
        slopes = torch.autograd.grad(heights, between, torch.ones_like(heights), create_graph=True)[0]
        penalty = ((slopes.norm(2, dim=1) - 1) ** 2).mean()
        loss = judge(made).mean() - judge(real).mean() + 10 * penalty
        loss.backward()
        to_judge.step()
        if turn % 3 == 2:
            to_make.zero_grad()
            (-judge(maker(noise)).mean()).backward()
            to_make.step()
""",
    "weights clipped": """
for epoch in range(3):
    for turn, (real, noise, _) in enumerate(loader):
        to_judge.zero_grad()
        (judge(maker(noise).detach()).mean() - judge(real).mean()).backward()
        to_judge.step()
        for weight in judge.parameters():
            weight.data.clamp_(-0.1, 0.1)
        to_make.zero_grad()
        (-judge(maker(noise)).mean()).backward()
        to_make.step()
""",
}


def script(name: str) -> str:
    return HEAD + BODIES[name].lstrip() + '    print("accuracy", epoch)\n'


@pytest.mark.parametrize("name", BODIES)
def test_two_ranks_follow_one_process(name: str, tmp_path: Path) -> None:
    assert_ranks_follow(script(name), tmp_path)
