"""What relates the samples of a batch, written into a tensor of samples: each rank would relate those of its share."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import LOOP, conversion_of, converted, script


def of_a_loader(turn: str, setup: str = "") -> str:
    turn = turn.replace("\n", "\n        ")
    return script(setup=setup, loop=LOOP.replace("        loss = ", f"        {turn}\n        loss = "))


RELATED = [
    "x.sub_(x.mean(0))",
    "x.data.div_(x.abs().max())",
    "x.clamp_(max=x.mean().item())",
    "x.masked_fill_(x > x.mean(), 0)",
    "x = x.masked_fill(x > x.mean(), 0)",
    "x[x > x.mean()] = 0",
    "x[y[:, 0] > y.mean()] = 0",
    "x[:, 0] = x[:, 0].flip(0)",
    "x[:, 0] = x[:, 0].sort()[0]",
    "x[:, 0], _ = x[:, 0].cummax(0)",
    "x[:, 0] = x[torch.arange(len(x)).flip(0), 0]",
    "x[:, 0] = x.std()",
    "x[:, 0].copy_(x[torch.arange(len(x)).flip(0), 0])",
    "m = x.mean(0)\nx[:, 1:] = m[1:]",
    "torch.add(x, x.mean(0), out=x)",
    "x = x.t().reshape(len(x), -1)",
    "x.index_copy_(1, torch.tensor([0]), x[:, 1:2].flip(0))",
    "x /= len(x)",
    "x *= x.shape[0]",
    "a, c = x.split(2, 1)\na.copy_(c.flip(0))",
    "low, high = x.chunk(2, 1)\nlow -= low.mean(0)",
    "x[:, 0].fill_(x.mean().item())",
    "x[:, 0].fill_(float(len(x)))",
    "x.masked_fill_(x > 1, x.mean())",
    "parts = {'x': x}\nparts['x'].sub_(x.mean(0))\nx = parts['x']",
    "z = torch.zeros_like(x)\nz[:, 1] = x[:, 1].roll(1, 0)\nx = x + z",
]
OF_EACH = [
    "x.mul_(2)",
    "x.sub_(x.mean(1, keepdim=True))",
    "x[:, 0] = x[:, 1].abs()",
    "x[:, 0] = x[torch.randperm(len(x)), 0]",
    "x[:, 0] = x.mean(1)",
    "torch.add(x, x.mean(1, keepdim=True), out=x)",
    "x.index_copy_(1, torch.tensor([0]), x[:, 1:2].clone())",
    "a, c = x.split(2, 1)\na.copy_(c)",
    "x[:, 0].fill_(2.0)",
    "x = x.unsqueeze(0).transpose(0, 1).reshape(x.size(0), 4)",
    "x.scatter_(1, y.long() * 0, 1.0)",
    "x[:, 0].copy_(y[:, 0])",
    "x[x > 0] = 0",
    "x[y[:, 0] > 0] = 0",
    "x[:, :] = x / x.norm(dim=1, keepdim=True)",
    "x.masked_fill_(x > 1, 0)",
    "z = torch.zeros_like(x)\nz[:, 1] = x[:, 0]\nx = x + z",
    "z = torch.zeros(len(x), 4)\nfor i, n in enumerate(y[:, 0].long().tolist()):\n    z[i, :n] = 1\nx = x * z",
    "shown = x.clone()\nshown.sub_(shown.mean(0))\nstr(shown)",
    "mask = torch.zeros(len(x), 4).scatter_(1, y.long(), 1.0)\nx = x * mask",
]


@pytest.mark.parametrize("turn", RELATED)
def test_what_relates_samples_is_not_sharded(turn: str) -> None:
    conversion = conversion_of(of_a_loader(turn), options=Options())
    assert conversion.strategy is Strategy.SHARED


@pytest.mark.parametrize("turn", OF_EACH)
def test_what_is_of_each_sample_is_sharded(turn: str) -> None:
    assert conversion_of(of_a_loader(turn), options=Options()).strategy is Strategy.SHARDED


def test_a_mean_that_is_written_is_that_of_all_ranks() -> None:
    after = converted(of_a_loader("x[:, 0] = x[:, 0] - x[:, 0].mean()"), options=Options())
    assert "        x[:, 0] = x[:, 0] - rt.mean_over_ranks(x[:, 0].mean())\n" in after
