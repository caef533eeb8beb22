"""GRAD02: counts, means and sums of a share that are written into parameters and gradients are those of the batch."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import LOOP, blocked, changes, conversion_of, converted, line_of, script

EACH = "        for p in model.parameters(): {line}\n        optimizer.step()"


def updated(line: str) -> str:
    return script(loop=LOOP.replace("        optimizer.step()", EACH.format(line=line)))


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("p.grad /= len(x)", "p.grad /= len(x) * rt.world_size()"),
        ("p.grad /= len(x) if epoch else len(y)", "p.grad /= (len(x) if epoch else len(y)) * rt.world_size()"),
        ("p.grad.div_(x.size(0) / 8)", "p.grad.div_((x.size(0) * rt.world_size()) / 8)"),
        ("p.grad.data *= 8 / x.shape[0]", "p.grad.data *= 8 / (x.shape[0] * rt.world_size())"),
        ("p.grad = p.grad / len(x)", "p.grad = p.grad / (len(x) * rt.world_size())"),
        ("p.data.add_(-0.1 / len(x) * p.grad)", "p.data.add_(-0.1 / (len(x) * rt.world_size()) * p.grad)"),
        ("p.data.mul_(1 - 0.1 * loss.item())", "p.data.mul_(rt.all_reduce_mean(1 - 0.1 * loss.item()))"),
        ("p.grad.add_(y.sum())", "p.grad.add_(rt.all_reduce_sum(y.sum()))"),
    ],
)
def test_of_the_batch(line: str, after: str) -> None:
    text = converted(updated(line))
    assert f"        for p in model.parameters(): {after}\n" in text


def test_in_place_by_an_operator() -> None:
    line = "with torch.no_grad():\n            for p in model.parameters():\n                p -= 0.1 / len(x) * p.grad"
    after = converted(script(loop=LOOP.replace("optimizer.step()", line)))
    assert "p -= 0.1 / (len(x) * rt.world_size()) * p.grad\n" in after


def test_parameters_that_the_first_batch_sets() -> None:
    net = """\
class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(4))
        self.done = False

    def forward(self, x):
        if not self.done:
            self.bias.data.copy_(-x.mean(0))
            self.done = True
        return x + self.bias


model = nn.Sequential(Shift(), nn.Linear(4, 1))
"""
    assert "self.bias.data.copy_(rt.all_reduce_mean(-x.mean(0)))" in converted(script(model=net))


@pytest.mark.parametrize("line", ["p.data.add_(x.std())", "p.grad.mul_(x.max())", "p.grad = p.grad * y[0]"])
def test_what_is_no_figure_of_the_batch_needs_somebody(line: str) -> None:
    before = updated(line)
    assert ("GRAD02", line_of(before, "for p in")) in blocked(before)


def test_figures_that_only_some_ranks_would_come_to() -> None:
    """A collective under a test that is a rank's own would wait for ever."""
    loop = LOOP.replace(
        "        optimizer.step()",
        "        optimizer.step()\n        if y[0].item() > 0:\n            model.bias.data.add_(x.mean())",
    )
    before = script(loop=loop)
    assert ("GRAD02", line_of(before, "bias.data.add_")) in blocked(before)


@pytest.mark.parametrize(
    "line",
    ["p.grad.clamp_(-1, 1)", "p.grad.mul_(0.5)", "p.data.clamp_(-0.01, 0.01)", "p.grad /= 1 + epoch", "p.grad = None"],
)
def test_left_alone(line: str) -> None:
    assert changes("GRAD02", updated(line)) == []


def test_gradients_of_samples_are_left_alone() -> None:
    loop = LOOP.replace("    for x, y in loader:\n", "    for x, y in loader:\n        x.requires_grad_()\n").replace(
        "        optimizer.step()", "        optimizer.step()\n        x.grad.data.mul_(len(x))"
    )
    assert changes("GRAD02", script(loop=loop)) == []


def test_gradients_that_are_scaled_stay_in_the_wrap() -> None:
    assert "DistributedDataParallel(" in converted(updated("p.grad /= len(x)"))


def test_what_the_checklist_says_of_steps_by_hand() -> None:
    """Of batches that are cut by hand, too, a mean is that of the global batch."""
    update = "    with torch.no_grad():\n        for p in model.parameters():\n            p -= 0.1 * p.grad\n"
    loop = (
        "for step in range(200):\n    i = torch.randint(0, 64, (8,))\n"
        "    loss = nn.functional.mse_loss(model(rows[i]), rows[i, :1])\n    model.zero_grad()\n    loss.backward()\n"
        f"{update}    if loss.item() < 0.1:\n        break\n"
    )
    found = conversion_of(script(data="rows = torch.randn(64, 4)\n", loader="", optimizer="", loop=loop)).findings
    told = {one.code: one.message for one in found}
    assert told["GRAD02"] == "nothing but gradients of the global batch is written into parameters by hand"
    assert told["DECIDE01"] == "all ranks decide on the mean over the global batch"


GRADIENTS_TAKEN = """\
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, gradient in zip(model.parameters(), gradients):
                p.sub_(0.1 * gradient)
"""


def test_parameters_are_trained_by_gradients_that_are_taken() -> None:
    """Nothing calls `backward()`, and there is no optimizer."""
    assert "rt.data_parallel(model)\n" in converted(script(optimizer="", loop=GRADIENTS_TAKEN), Options())


def test_gradients_by_parameters_of_what_is_not_trained_change_nothing() -> None:
    asked = "        slopes = torch.autograd.grad(loss, list(other.parameters()), None, True, allow_unused=True)\n"
    before = script(loop=LOOP.replace("        loss.backward()", f"{asked}        loss.backward()"))
    after = converted(before.replace("model = ", "other = nn.Linear(4, 1)\nmodel = "))
    assert "rt.broadcast_parameters(model)" in after
    assert "rt.broadcast_parameters(other)" not in after
