"""What steps leave in a tensor, and the loss of a later one depends on."""

from __future__ import annotations

import re

import pytest
from ranks import run_script

TRAIN = """
import sys, torch
import distify_runtime as rt
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

rt.init_process_group()
torch.manual_seed(0)
how, loss_of, behind = sys.argv[1:4]
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
if how == "by a line":
    rt.broadcast_parameters(net)
    model = net
else:
    model = DistributedDataParallel(net)
optimizer = torch.optim.Adam(model.parameters(), 0.01)
critic = nn.Linear(1, 1)
other = torch.optim.SGD(critic.parameters(), 0.01)
memory, seen, inputs, noise = torch.zeros(6, 4), torch.zeros(()), torch.zeros(8, 4), torch.zeros(8, 4)
views, hidden = {"mean": memory[2]}, torch.zeros(4)
rt.seed_ranks_apart()
loader = DataLoader(TensorDataset(torch.randn(160, 4)), 8)
ahead = torch.randn(8, 4)


def put(where, what):
    where += what


for (x,) in loader:
    optimizer.zero_grad()
    loss = eval(loss_of)
    loss.backward()
    if how == "by a line":
        rt.all_reduce_gradients(optimizer)
    optimizer.step()
    exec(behind)
    if how == "two in turn":
        other.zero_grad()
        critic(model(x).detach()).mean().backward()
        rt.all_reduce_gradients(other)
        other.step()
print("trained")
"""
SAID = (
    r"the loss depends on what earlier steps have left in a tensor of shape \({}\) \(\S*script.py:\d+\), which is "
    r"changed in place at \S*script.py:\d+, and rank 1 has other numbers there than rank 0"
)


@pytest.mark.parametrize(
    ("how", "loss", "behind", "shape"),
    [
        ("wrapped", "model(x - memory[2]).square().mean()", "memory[2] += x.mean(0)", "4,"),
        ("by a line", "model(x - memory[2]).square().mean()", "memory[2] += x.mean(0)", "4,"),
        ("two in turn", "model(x - memory[2]).square().mean()", "memory[2] += x.mean(0)", "4,"),
        ("wrapped", "model(x).square().mean() / (1 + seen)", "seen.fill_(loss.item())", ""),
        ("wrapped", "model(x - views['mean']).mean()", "put(*(views['mean'], x.mean(0)))", "4,"),
        ("wrapped", "model(x - memory[2]).mean()", "torch.Tensor.copy_(views['mean'], x[0])", "4,"),
        ("wrapped", "(memory.lerp_(x[:6], 0.5).sum() * model(x)).mean()", "", "6, 4"),
    ],
)
def test_what_each_rank_leaves_for_itself_ends_the_run(how: str, loss: str, behind: str, shape: str) -> None:
    ended = run_script(TRAIN, how, loss, behind)[0]
    assert (ended.code, ended.out) == (1, "")
    assert re.search(SAID.format(shape), ended.err), ended.err


@pytest.mark.parametrize(
    ("loss", "behind"),
    [
        ("model(x - memory[2]).square().mean()", "memory[2] += rt.all_reduce_mean(x.mean(0))"),
        ("model(x).square().mean() / (1 + seen)", "seen += 1"),
        ("model(x).square().mean()", "seen += loss.detach(); memory[2] += x.mean(0)"),  # figures
        ("model(inputs.copy_(x) + noise.normal_()).square().mean()", ""),  # written anew for each batch
        ("(inputs[:5].copy_(x[:5]), inputs[5:].zero_(), model(inputs))[-1].square().mean()", ""),
        ("model(x + ahead.mul_(0.5)).square().mean()", "ahead = torch.randn(8, 4)"),  # made ahead of its step
        ("model(x.sub_(x.mean())).square().mean()", ""),
        ("model(x + hidden).square().mean()", "hidden = (hidden + x.mean(0)).detach_()"),  # not in place: by the text
    ],
)
def test_nothing_is_said_of_what_is_alike_or_of_the_batch(loss: str, behind: str) -> None:
    ended = run_script(TRAIN, "wrapped", loss, behind)
    assert [(one.code, one.out) for one in ended] == [(0, "trained\n")] * 2, ended[0].err
    assert "earlier steps" not in ended[0].err


def test_a_run_that_only_warns_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTIFY_WATCH", "warn")
    ended = run_script(TRAIN, "wrapped", "model(x - memory[2]).square().mean()", "memory[2] += x.mean(0)")
    assert [(one.code, one.out) for one in ended] == [(0, "trained\n")] * 2
    assert len(re.findall(SAID.format("4,"), ended[0].err)) == 1, ended[0].err
