"""Training steps that are more than a backward pass and a step are the same on two ranks as in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence.conversions import assert_ranks_follow

HEAD = """\
import copy
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 4), torch.randn(48, 2))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x, turn):
        return self.one(x) if turn % 2 else self.other(x)


class Checkpointed(Net):
    def forward(self, x):
        x.requires_grad_()
        inner = checkpoint(self.first, x, use_reentrant=True) + checkpoint(self.first, -x, use_reentrant=True)
        return self.last(torch.tanh(inner))


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias, self.done = nn.Parameter(torch.zeros(4)), False

    def forward(self, x):
        if not self.done:
            self.bias.data.copy_(-x.mean(0))
            self.done = True
        return x + self.bias


class Method(Net):
    def loss(self, x, y):
        return functional.mse_loss(self(x), y)


"""
PLAIN = """\
optimizer.zero_grad()
loss = functional.mse_loss(model(x), y)
loss.backward()
"""
#: The model, the optimizer and what is set up, the turns of a loop over `loader`.
STEPS: dict[str, tuple[str, str, str]] = {
    "every other turn": ("Net()", "", """\
(functional.mse_loss(model(x), y) / 2).backward()
if turn % 2 == 1:
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    optimizer.zero_grad()
"""),
    "every third turn and the last": ("Net()", "", """\
(functional.mse_loss(model(x), y) / 3).backward()
if (turn + 1) % 3 == 0 or turn + 1 == len(loader):
    optimizer.step()
    optimizer.zero_grad()
"""),
    "left over from epoch to epoch": ("Net()", "done = 0", """\
done += 1
(functional.mse_loss(model(x), y) / 4).backward()
if done % 4 == 0:
    optimizer.step()
    optimizer.zero_grad()
"""),
    "some parts in some turns": ("Branches()", "", """\
(functional.mse_loss(model(x, turn), y) / 2).backward()
if turn % 2 == 1:
    optimizer.step()
    optimizer.zero_grad()
"""),
    "by the number of samples": ("Net()", "", """\
optimizer.zero_grad()
functional.mse_loss(model(x), y, reduction="sum").backward()
for parameter in model.parameters():
    parameter.grad /= len(x)
optimizer.step()
"""),
    "a mean in the weights": ("Net()", "", PLAIN + """\
optimizer.step()
model.last.bias.data.lerp_(y.mean(0), 0.1)
"""),
    "weights of the first batch": ("nn.Sequential(Shift(), nn.Linear(4, 2))", "", PLAIN + "optimizer.step()\n"),
    "a closure": ("Net()", "optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)", """\
def closure():
    optimizer.zero_grad()
    loss = functional.mse_loss(model(x), y)
    loss.backward()
    return loss
optimizer.step(closure)
"""),
    "a closure of a sum": ("Net()", "optimizer = torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=3)", """\
def closure():
    optimizer.zero_grad()
    loss = functional.mse_loss(model(x), y, reduction="sum")
    loss.backward()
    return loss
optimizer.step(closure)
"""),
    "scaled and clipped": ("Net()", "scaler = torch.amp.GradScaler('cpu', init_scale=8.0)", """\
optimizer.zero_grad()
scaler.scale(functional.mse_loss(model(x), y)).backward()
scaler.unscale_(optimizer)
nn.utils.clip_grad_value_(model.parameters(), 0.01)
scaler.step(optimizer)
scaler.update()
"""),
    "a schedule of all steps": (
        "Net()",
        "scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=2 * len(loader))",
        PLAIN + "optimizer.step()\nscheduler.step()\n",
    ),
    "a rate by hand": ("Net()", "", PLAIN + """\
optimizer.param_groups[0]["lr"] = 0.1 * (1 - turn / len(loader))
optimizer.step()
"""),
    "an average and a target": (
        "Normed()",
        "target = copy.deepcopy(model).requires_grad_(False)",
        """\
optimizer.zero_grad()
wanted = target(x).detach()
(functional.mse_loss(model(x), y) + functional.mse_loss(model(-x), wanted)).backward()
optimizer.step()
with torch.no_grad():
    for ours, theirs in zip(target.parameters(), model.parameters()):
        ours.mul_(0.9).add_(theirs, alpha=0.1)
""",
    ),
    "reentrant checkpoints": ("Checkpointed()", "", PLAIN + "optimizer.step()\n"),
    "another optimizer in mid-run": ("Net()", "", """\
if epoch == 1 and turn == 0:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)
""" + PLAIN + "optimizer.step()\n"),
    "frozen and thawed": ("Net()", "", """\
for parameter in model.first.parameters():
    parameter.requires_grad = epoch > 0
""" + PLAIN + "optimizer.step()\n"),
    "a penalty on slopes": ("Net()", "", """\
optimizer.zero_grad()
scores = model(x.requires_grad_())
slopes = torch.autograd.grad(scores.sum(), x, create_graph=True)[0]
(functional.mse_loss(scores, y) + ((slopes.norm(dim=1) - 1) ** 2).mean()).backward()
optimizer.step()
"""),
    "a step inside a step": ("Net()", "", """\
optimizer.zero_grad()
slopes = torch.autograd.grad(functional.mse_loss(model(x), y), list(model.parameters()), create_graph=True)
fast = [one - 0.1 * slope for one, slope in zip(model.parameters(), slopes)]
inner = torch.tanh(functional.linear(-x, fast[0], fast[1]))
functional.mse_loss(functional.linear(inner, fast[2], fast[3]), y).backward()
optimizer.step()
"""),
    "as many models as are asked for": ("Normed()", """\
import sys
models, optimizers = [model], [optimizer]
for _ in range(len(sys.argv) + 1):
    one = Normed()
    models.append(one)
    optimizers.append(torch.optim.SGD(one.parameters(), lr=0.1))
""", """\
for one, own in zip(models, optimizers):
    own.zero_grad()
    functional.mse_loss(one(x), y).backward()
    own.step()
"""),
    "through a method": ("Method()", "", """\
optimizer.zero_grad()
model.loss(x, y).backward()
nn.utils.clip_grad_norm_(model.parameters(), 0.1)
optimizer.step()
"""),
}  # fmt: skip


def script(name: str) -> str:
    model, setup, turns = STEPS[name]
    body = "".join(f"        {line}\n" for line in turns.splitlines())
    return (
        f"{HEAD}loader = DataLoader(data, batch_size=8, shuffle=True)\nmodel = {model}\n"
        f"optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)\n{setup}\n"
        f"for epoch in range(2):\n    for turn, (x, y) in enumerate(loader):\n{body}print('accuracy 1')\n"
    )


@pytest.mark.parametrize("name", STEPS)
def test_two_ranks_follow_one_process(name: str, tmp_path: Path) -> None:
    assert_ranks_follow(script(name), tmp_path)
