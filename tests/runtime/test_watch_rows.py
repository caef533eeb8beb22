"""Losses that compare every sample with every other, which nobody has seen before the run."""

from __future__ import annotations

import re

import pytest
from ranks import run_script

TRAIN = """
import sys, torch, warnings
import distify_runtime as rt
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

warnings.filterwarnings("ignore", "Using a target size")
rt.init_process_group()
torch.manual_seed(0)
width = int(sys.argv[2])
if len(sys.argv) > 4:
    rt.per_rank_batch_size(int(sys.argv[4]))
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, width))
if sys.argv[1] == "by a line":
    rt.broadcast_parameters(model)
else:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
rt.seed_ranks_apart()
weights = torch.rand(8)
centers = nn.Parameter(torch.randn(8, 6))


def loss_of(out, x, y):
    return eval(sys.argv[3])


for step in range(6):
    x, y = torch.randn(8, 4), torch.randn(8)
    optimizer.zero_grad()
    loss = loss_of(model(x), x, y)
    loss.backward()
    if sys.argv[1] == "by a line":
        rt.all_reduce_gradients(optimizer)
    optimizer.step()
print("trained")
"""
PAIRS = r"the loss \(\S*script.py:\d+\) takes a model's outputs of shape \({}\) and something of another shape to "
FOLDED = r"the loss \(\S*script.py:\d+\) puts samples of a batch together in rows, of shape \({}\) to \({}\): a "


@pytest.mark.parametrize(
    ("how", "width", "loss"),
    [
        ("wrapped", 1, "F.mse_loss(out, y)"),
        ("wrapped", 1, "F.smooth_l1_loss(out.squeeze(1), y[:, None])"),
        ("by a line", 1, "F.l1_loss(out, y) * 2"),
        ("wrapped", 1, "F.mse_loss(out, y[:, None, None])"),
        ("wrapped", 1, "F.mse_loss(out.view(8, 1, 1), y[:, None])"),
        ("wrapped", 3, "F.mse_loss(out, y.view(8, 1, 1).expand(8, 1, 3))"),
    ],
)
def test_a_loss_of_two_shapes_ends_the_run(how: str, width: int, loss: str) -> None:
    ended = run_script(TRAIN, how, str(width), loss)[0]
    assert ended.code == 1
    shape = "8, 3" if width == 3 else "8, 1, 1" if "out.view" in loss else "8," if "squeeze" in loss else "8, 1"
    said = PAIRS.format(shape) + r"\(8, 8(, \d)?\): every sample of a batch is compared"
    assert re.search(said, ended.err), ended.err


@pytest.mark.parametrize(
    ("width", "loss", "said"),
    [
        (1, "(out - y).square().mean()", PAIRS.format("8, 1")),
        (1, "(out.squeeze(1) * y[:, None]).mean()", PAIRS.format("8,")),
        (1, "out.view(-1, 2).softmax(1)[:, 0].sum() / 4", FOLDED.format("8, 1", "4, 2")),
    ],
)
def test_what_may_have_a_reason_is_said_once(width: int, loss: str, said: str) -> None:
    ended = run_script(TRAIN, "wrapped", str(width), loss)
    assert [(one.code, one.out) for one in ended] == [(0, "trained\n")] * 2
    assert len(re.findall(said, ended[0].err)) == 1, ended[0].err


@pytest.mark.parametrize(
    ("loss", "made"),
    [
        ("out.view(-1, 2, 3).diff(dim=1).square().mean()", "4, 2, 3"),
        ("(out * 2).reshape(len(x) // 2, 6).var(1).mean()", "4, 6"),
    ],
)
def test_rows_of_samples_that_are_put_together_are_said_once(loss: str, made: str) -> None:
    ended = run_script(TRAIN, "wrapped", "3", loss, "16")
    assert [(one.code, one.out) for one in ended] == [(0, "trained\n")] * 2
    assert len(re.findall(FOLDED.format("8, 3", made), ended[0].err)) == 1, ended[0].err


@pytest.mark.parametrize(
    ("ahead", "made"), [("x.view(-1, 2, 4)[:, 0]", "4, 2, 4"), ("(x * 2).reshape(-1, 8)[:, :4].zero_()", "4, 8")]
)
def test_samples_of_a_batch_that_no_model_was_given_yet(ahead: str, made: str) -> None:
    loss = f"out.square().mean() + 0 * {ahead}.mean()"
    ended = run_script(TRAIN, "wrapped", "3", loss, "16")
    assert [(one.code, one.out) for one in ended] == [(0, "trained\n")] * 2
    said = r"distify: what runs \(\S*script.py:\d+\) puts samples of a batch together in rows, of shape \(8, 4\) to "
    assert len(re.findall(said + rf"\({made}\): a", ended[0].err)) == 1, ended[0].err


@pytest.mark.parametrize(
    ("loss", "batch"),
    [
        ("out.view(-1, 2, 3).mean(1).square().mean()", "8"),  # two views of each of 4 samples
        ("(out.view(-1, 3) + centers[:, :3].reshape(4, 6).sum()).square().mean()", "16"),
        ("out.view(8, 1, 3).square().mean() + out.view(-1).mean()", "16"),
        ("out.square().mean() + x.view(-1, 2, 2)[:, 0].mean() + x.view(1, -1).mean() + x.view(-1, 1).mean()", "16"),
    ],
)
def test_rows_that_are_no_samples(loss: str, batch: str) -> None:
    ended = run_script(TRAIN, "wrapped", "3", loss, batch)
    assert [(one.code, one.out) for one in ended] == [(0, "trained\n")] * 2
    assert "puts samples" not in ended[0].err, ended[0].err


@pytest.mark.parametrize(
    ("width", "loss"),
    [
        (1, "F.mse_loss(out.squeeze(1), y)"),
        (1, "F.mse_loss(out, y[:, None]) + out.mean() * y.mean()"),
        (8, "F.cross_entropy(out, x.argmax(1)) + (out - out.max(1, keepdim=True).values).square().mean()"),
        (8, "(out / out.norm(dim=1, keepdim=True) * weights).sum() / 8"),
        (8, "(F.normalize(out, dim=1) * weights).sum() / 8"),
        (8, "F.mse_loss(out, torch.zeros(8))"),
        (6, "(out.unsqueeze(1) - centers.expand(8, -1, -1)).square().sum(2).min(1).values.mean()"),
        (6, "F.mse_loss(out.unsqueeze(1).expand(8, 8, 6), centers.expand(8, 8, 6))"),
        (2, "out.view(-1).square().mean() + out.view(-1, 1, 2).sum(2).square().mean()"),
    ],
)
def test_what_each_sample_has_for_itself_is_nothing(width: int, loss: str) -> None:
    """As many classes as there are samples, too."""
    ended = run_script(TRAIN, "wrapped", str(width), loss)
    assert [(one.code, one.out) for one in ended] == [(0, "trained\n")] * 2
    assert "distify" not in ended[0].err, ended[0].err
