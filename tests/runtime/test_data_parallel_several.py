"""A model that cannot be shared, and another one that is trained after it: the run goes on to that."""

from __future__ import annotations

from ranks import run_script

SCRIPT = """\
import sys
import torch
from torch import nn
import distify_runtime as rt

rt.init_process_group(whole_batches=True)
torch.manual_seed(0)


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4))

    def forward(self, rows):
        return rows @ self.weight @ rows.T


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()


def second():
    student = nn.Linear(4, 2)
    rt.data_parallel(student)
    train(student)
    return student


teacher = Pairs()
rt.data_parallel(teacher)
train(teacher)
print(f"{second().weight.sum().item():.6f}")
"""


def test_another_model_may_be_shared_later() -> None:
    first, second = run_script(SCRIPT)
    assert (first.code, second.code) == (0, 0), first.err
    assert "Pairs is computed on whole batches by every rank" in first.err
    assert first.out


WARMED_UP = """\
import distify_runtime as rt
import torch
from torch import nn

rt.init_process_group(whole_batches=True)
torch.manual_seed(0)
shift = nn.Parameter(torch.zeros(4))
net = nn.Linear(4, 2)
rt.data_parallel(net)
optimizer = torch.optim.SGD([shift, *net.parameters()], 0.01)
for step in range(25):
    x = torch.randn(8, 4) + shift
    optimizer.zero_grad()
    (x if step < 22 else net(x)).square().mean().backward()
    optimizer.step()
print(f"{shift.sum().item():.6f}")
"""


def test_a_warm_up_without_the_model_is_no_run_that_shares_nothing() -> None:
    first, second = run_script(WARMED_UP)
    assert (first.code, second.code) == (0, 0), first.err
    assert first.out == second.out
