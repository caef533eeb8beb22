"""How many items a list has, by which a loss is divided: as many as samples, some of them, or whatever the batch is."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, converted, script

LOSS = "        loss = nn.functional.mse_loss(model(x), y)\n"
HEADS = """\
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(4, 1) for _ in range(3)])

    def forward(self, x):
        outs = []
        for head in self.heads:
            outs.append(head(x))
        return outs


"""


def training(turn: str, model: str = "model = nn.Linear(4, 1)\n") -> str:
    lines = "".join(f"        {line}\n" for line in turn.splitlines())
    imports = f"import math\nimport numpy as np\n{IMPORTS}"
    return script(imports=imports, model=model, loop=LOOP.replace(LOSS, lines))


OF_NO_SAMPLES = [
    "outs = [model(x) for _ in range(3)]\nloss = sum((o - y).pow(2).mean() for o in outs) / len(outs)",
    "outs = []\nfor k in range(3):\n    outs.append(model(x) * k)\n"
    "loss = sum((o - y).pow(2).mean() for o in outs) / len(outs)",
    "outs = list(map(model, [x, 2 * x]))\nloss = sum((o - y).pow(2).mean() for o in outs) / len(outs)",
    "parts = x.chunk(2, 1)\nloss = sum((p.mean(1) + model(x)[:, 0]).pow(2).mean() for p in parts) / len(parts)",
    "both = [x, 2 * x]\nboth.append(3 * x)\nloss = sum((model(b) - y).pow(2).mean() for b in both) / len(both)",
    "both = [x]\nboth += [2 * x, 3 * x]\nloss = sum((model(b) - y).pow(2).mean() for b in both) / len(both)",
    "both = {'a': x, 'b': 2 * x}\nloss = sum((model(b) - y).pow(2).mean() for b in both.values()) / len(both)",
]
OF_ENTRIES = [
    "loss = (model(x) - y).pow(2).sum() / y.shape.numel()",
    "loss = (model(x) - y).pow(2).sum() / np.prod(y.shape)",
    "loss = (model(x) - y).pow(2).sum() / math.prod(y.size())",
]
OF_EACH = [
    "rows = list(x)\nloss = (model(torch.stack(rows)) - y).pow(2).sum() / len(rows)",
    "rows = [*x]\nloss = (model(torch.stack(rows)) - y).pow(2).sum() / len(rows)",
    "rows = []\nrows.extend(x)\nloss = (model(torch.stack(rows)) - y).pow(2).sum() / len(rows)",
    "rows = []\nrows += x\nloss = (model(torch.stack(rows)) - y).pow(2).sum() / len(rows)",
    "rows = []\nfor row in x:\n    rows.append(row)\nloss = (model(x) - y).pow(2).sum() / len(rows)",
    "rows = []\nfor i in range(len(x)):\n    rows.append(i)\nloss = (model(x) - y).pow(2).sum() / len(rows)",
    "pairs = list(zip(x, y))\nloss = (model(x) - y).pow(2).sum() / len(pairs)",
]
OF_SOME = [
    "rows = []\nfor row, t in zip(x, y):\n    if t > 0:\n        rows.append(row)\n"
    "loss = (model(x) - y).pow(2).sum() / len(rows)",
    "rows = [row for row, t in zip(x, y) if t > 0]\nloss = (model(x) - y).pow(2).sum() / len(rows)",
    "rows = []\nfor row, t in zip(x, y):\n    if t < 0:\n        continue\n    rows.append(row)\n"
    "loss = (model(x) - y).pow(2).sum() / len(rows)",
    "seen = set()\nfor t in y:\n    seen.add(round(t.item(), 1))\nloss = (model(x) - y).pow(2).sum() / len(seen)",
    "loss = (model(x) - y).pow(2).sum() / sum(1 for _ in y)",
    "n = 0\nfor _ in y:\n    n += 1\nloss = (model(x) - y).pow(2).sum() / n",
    "n = 0\nfor t in y:\n    if t > 0:\n        n = n + 1\nloss = (model(x) - y).pow(2).sum() / (n + 1)",
    "rows = [x[0]]\nrows.extend(x)\nloss = (model(x) - y).pow(2).sum() / len(rows)",
    "outs = []\nfor row in x:\n    outs.append(model(x).mean())\nloss = sum(outs) / len(outs)",
]


@pytest.mark.parametrize("turn", OF_NO_SAMPLES)
def test_items_that_are_no_samples(turn: str) -> None:
    after = converted(training(turn), Options())
    assert "DistributedDataParallel(model" in after
    assert f"        {turn.splitlines()[-1]}\n" in after


def test_outputs_of_several_heads() -> None:
    turn = "outs = model(x)\nloss = 0\nfor out in outs:\n    loss += (out - y).pow(2).mean()\nloss /= len(outs)"
    after = converted(training(turn, f"{HEADS}model = Heads()\n"), Options())
    assert "DistributedDataParallel(model" in after
    assert "        loss /= len(outs)\n" in after


@pytest.mark.parametrize("turn", [*OF_EACH, *OF_ENTRIES])
def test_items_of_which_each_sample_has_one(turn: str) -> None:
    """A sum over a rank's samples, divided by their number, is a mean."""
    after = converted(training(turn), Options())
    assert "DistributedDataParallel(model" in after
    assert f"        {turn.splitlines()[-1]}\n" in after


@pytest.mark.parametrize("turn", OF_SOME)
def test_items_of_some_samples(turn: str) -> None:
    before = training(turn)
    shared = conversion_of(before, options=Options()).strategy is Strategy.SHARED
    assert shared or "/ rt.sum_over_ranks(" in converted(before, Options())


def test_turns_over_other_things_are_counted_as_they_are() -> None:
    turn = "n = 0\nfor k in range(3):\n    n += 1\nloss = (model(x) - y).pow(2).mean() / n"
    assert "        loss = (model(x) - y).pow(2).mean() / n\n" in converted(training(turn), Options())
