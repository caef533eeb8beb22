"""Training that is weighed by running losses follows one process, wherever a script keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.equivalence.conversions import assert_ranks_follow

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(60, 6)
loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
"""

STEP = """\
        optimizer.zero_grad()
        weighed.backward()
        optimizer.step()
"""

KEPT = f"""\
{HEAD}

def weighed_by_mean(loss):
    weighed_by_mean.run = 0.9 * weighed_by_mean.run + 0.1 * loss.item()
    return loss / weighed_by_mean.run


weighed_by_mean.run = 1.0


class History(list):
    def __lshift__(self, loss):
        self.append(loss)

    def mean(self):
        return sum(self[-3:]) / len(self[-3:])


history = History([1.0])
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        weighed = weighed_by_mean(loss) / (1 + history.mean() + getattr(model[0].weight, "run", 0.0))
{STEP}        history << loss.item()
        model[0].weight.run = loss.item()
print("no accuracy, of epoch", epoch)
"""

SET = f"""\
{HEAD}
criterion = nn.HuberLoss()
for epoch in range(3):
    for x, y in loader:
        weighed = criterion(model(x), y)
{STEP}        criterion.delta = 0.5 * criterion.delta + 0.5 * weighed.item()
print("no accuracy, of epoch", epoch)
"""


@pytest.mark.parametrize("source", [KEPT, SET], ids=["kept", "settings"])
def test_running_losses_are_of_all_samples(source: str, tmp_path: Path) -> None:
    assert_ranks_follow(source, tmp_path)


STOPPED = f"""\
{HEAD}

class Stopper:
    def __init__(self):
        self.best, self.bad = 9.0, 0

    def __call__(self, loss):
        better = loss < self.best - 0.05
        self.best, self.bad = (loss, 0) if better else (self.best, self.bad + 1)
        return self.bad > 2


stopper = Stopper()
for epoch in range(20):
    for x, y in loader:
        weighed = nn.functional.mse_loss(model(x), y)
{STEP}    stop = stopper(weighed.item())
    torch.save({{"model": model.state_dict(), "stopper": vars(stopper)}}, "last.pt")
    if stop:
        break
print("no accuracy, of epoch", epoch)
"""


def test_a_stopper_that_is_saved_as_a_whole_is_that_of_one_process(tmp_path: Path) -> None:
    assert_ranks_follow(STOPPED, tmp_path)
    one, ranks = (torch.load(tmp_path / name / "last.pt") for name in ("one", "ranks"))
    assert ranks["stopper"]["bad"] == one["stopper"]["bad"]
    assert ranks["stopper"]["best"] == pytest.approx(one["stopper"]["best"], abs=1e-12)
