"""Training that is steered by a figure of each rank's own samples, and not by a test."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import conversion_of, script

SETUP = "criteria = [nn.MSELoss(), nn.L1Loss()]\noptimizers = [optimizer, torch.optim.Adam(model.parameters())]\n"
TOLD = "steers training by what each rank makes of its own samples"


def _converted(before_step: str, step: str = "optimizer.step()", loss: str = "nn.MSELoss()") -> tuple[object, str]:
    lines = "".join(f"        {line}\n" for line in before_step.splitlines())
    loop = f"""\
{SETUP}which = 0
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        loss = {loss}(model(x), y)
        optimizer.zero_grad()
        loss.backward()
{lines}        {step}
"""
    conversion = conversion_of(script(loop=loop), options=Options())
    return conversion.strategy, " ".join(one.message for one in conversion.of(Level.ADVICE))


@pytest.mark.parametrize(
    ("before_step", "step", "loss"),
    [
        ("nn.utils.clip_grad_norm_(model.parameters(), 0.1 * loss.item())", "optimizer.step()", "nn.MSELoss()"),
        ("nn.utils.clip_grad_value_(model.parameters(), x.std().item())", "optimizer.step()", "nn.MSELoss()"),
        ("which = int(loss.item() < 1)", "optimizer.step()", "criteria[which]"),
        ("pass", "optimizers[int(loss.item() < 1)].step()", "nn.MSELoss()"),
        ("pass", "torch.optim.SGD(model.parameters(), lr=0.1 * loss.item()).step()", "nn.MSELoss()"),
        ("model.weight.requires_grad_(loss.item() < 1)", "optimizer.step()", "nn.MSELoss()"),
        ("for _ in range(int(4 * loss.item())):\n    optimizer.step()", "optimizer.step()", "nn.MSELoss()"),
        ("torch.manual_seed(int(1000 * loss.item()))", "optimizer.step()", "nn.MSELoss()"),
        ("torch.Generator().manual_seed(int(1000 * loss.item()))", "optimizer.step()", "nn.MSELoss()"),
    ],
)
def test_ranks_would_go_different_ways(before_step: str, step: str, loss: str) -> None:
    strategy, said = _converted(before_step, step, loss)
    assert strategy is Strategy.SHARED
    assert TOLD in said


@pytest.mark.parametrize(
    ("before_step", "step", "loss"),
    [
        ("nn.utils.clip_grad_norm_(model.parameters(), 0.1)", "optimizer.step()", "nn.MSELoss()"),
        ("norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1 / (epoch + 1))", "optimizer.step()", "nn.MSELoss()"),
        ("which = i % 2", "optimizer.step()", "criteria[which]"),
        ("pass", "optimizers[epoch % 2].step()", "nn.MSELoss()"),
        ("model.weight.requires_grad_(epoch < 1)", "optimizer.step()", "nn.MSELoss()"),
        ("for _ in range(2):\n    optimizer.step()", "optimizer.step()", "nn.MSELoss()"),
        ("torch.Generator().manual_seed(epoch)", "optimizer.step()", "nn.MSELoss()"),
        ("for k in range(len(x)):\n    print(k)", "optimizer.step()", "nn.MSELoss()"),
    ],
)
def test_what_is_alike_on_all_ranks_steers_all_of_them(before_step: str, step: str, loss: str) -> None:
    assert TOLD not in _converted(before_step, step, loss)[1]


def test_a_parameter_that_is_filled_from_a_batch_is_not_each_rank_s_own() -> None:
    strategy, _ = _converted("with torch.no_grad():\n    model.bias.copy_(torch.log(y.abs().sum(0) / len(y) + 0.1))")
    assert strategy is Strategy.SHARED


@pytest.mark.parametrize("text", ['"loss.mul_(2)"', "input()"])
def test_what_a_text_does_that_is_run_is_not_seen(text: str) -> None:
    strategy, said = _converted(f"exec({text})")
    assert strategy is Strategy.SHARED
    assert f"`exec({text})` runs a text, and what that does with the samples is not seen" in said.replace("'", '"')
