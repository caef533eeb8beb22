"""Of a batch that is cut by hand all ranks draw alike: noise that is drawn for a rank's share would be all the same."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import MODEL, OPTIMIZER, conversion_of, line_of, script

IMPORTS = "import random\nimport numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
DATA = "inputs, labels = torch.randn(64, 4), torch.randn(64, 1)\n"
LOOP = """\
for step in range(20):
    rows = torch.randint(0, len(inputs), (8,))
    x, y = inputs[rows], labels[rows]
    {drawn}
    loss = nn.functional.mse_loss({out}, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NOISY = """\
class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.drop = nn.Dropout()

    def shifted(self, x):
        return x + torch.randn(x.size(0), 1)

    def forward(self, x):
        return self.layer(self.drop(x))


model = Noisy()
"""
INSIDE = NOISY.replace("self.drop(x)", "self.shifted(self.drop(x))")
FROZEN = "noise = nn.Sequential(nn.Identity(), nn.Dropout())\n"
HELPER = "def noise_like(x):\n    return torch.empty(x.shape).normal_()\n\n\n"


def written(drawn: str, model: str, out: str, setup: str) -> str:
    loop = LOOP.replace("{drawn}", drawn.replace("\n", "\n    ")).replace("{out}", out)
    return script(imports=IMPORTS, data=DATA, loader="", model=model, optimizer=OPTIMIZER, setup=setup, loop=loop)


def links(before: str) -> list[int]:
    conversion = conversion_of(before, options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "draws for a rank's own samples" in one.message]
    assert (conversion.strategy is Strategy.SHARED) is bool(found)
    return [one.place.line for one in found if one.place]


@pytest.mark.parametrize(
    ("drawn", "model", "out", "setup"),
    [
        ("t = torch.randn_like(x)", MODEL, "model(x + t)", ""),
        ("t = torch.rand((x.shape[0], 1))", MODEL, "model(x + t)", ""),
        ("t = torch.randn(len(rows), 4)", MODEL, "model(x + t)", ""),
        ("t = torch.tensor(np.random.normal(size=(x.size(0), 4)))", MODEL, "model(x + t)", ""),
        ("t = torch.randint(0, 9, (x.shape[0],))", MODEL, "model(x / (t + 1)[:, None])", ""),
        ("t = torch.rand(x.size(0), 1, generator=own)", MODEL, "model(x + t)", "own = torch.Generator()\n"),
        ("x = x + torch.tensor([[random.random()] for _ in range(len(x))])", MODEL, "model(x)", ""),
        ("t = noise_like(x)", MODEL, "model(x + t)", HELPER),
        ("x = torch.stack([row * torch.rand(4) for row in x])", MODEL, "model(x)", ""),
        ("x = torch.stack([row * torch.rand(8)[:4] for row in x])", MODEL, "model(x)", ""),  # not of the batch's size
        ("x = F.dropout(x)", MODEL, "model(x)", ""),
        ("x = noise(x)", MODEL, "model(x)", FROZEN),
        ("t = model.shifted(x)", NOISY, "model(t)", ""),
    ],
)
def test_draws_for_a_share(drawn: str, model: str, out: str, setup: str) -> None:
    before = written(drawn, model, out, setup)
    elsewhere = {HELPER: "normal_()", "": "torch.randn(x.size(0), 1)" if model is NOISY else drawn}
    assert links(before) == [line_of(before, elsewhere.get(setup, drawn))]


@pytest.mark.parametrize(
    ("drawn", "model", "out", "setup"),
    [
        ("x, y = x * 2, y * 2", MODEL, "model(x)", ""),  # nothing is drawn
        ("t = torch.rand(1)", MODEL, "model(x * t)", ""),  # one number for the batch, which is alike
        ("t = torch.randn(4)", MODEL, "model(x + t)", ""),  # and so is one of each feature
        ("t = torch.rand(x.size(1))", MODEL, "model(x + t)", ""),
        ("t = random.uniform(0.5, 1.5)", MODEL, "model(x * t)", ""),
        ("print(torch.randn_like(x).mean())", MODEL, "model(x)", ""),  # nothing is learnt of it
        ("x = x + 1", NOISY, "model(x)", ""),  # in the model each rank draws for itself
        ("x = x + 1", INSIDE, "model(x)", ""),
        ("x = noise(x)", MODEL, "model(x)", FROZEN.replace("Dropout", "Tanh")),
        ("with torch.no_grad():\n    torch.randn_like(x)", MODEL, "model(x)", ""),
    ],
)
def test_draws_that_may_be_alike(drawn: str, model: str, out: str, setup: str) -> None:
    assert links(written(drawn, model, out, setup)) == []


@pytest.mark.parametrize("into", ["t", "x"])
def test_draws_that_are_written_into_each_row(into: str) -> None:
    """Into what is made for the batch, or into the batch itself."""
    drawn = f"t = x.clone()\nfor k in range(len(x)):\n    {into}[k] = x[k] * torch.rand(4)"
    before = written(drawn, MODEL, f"model({into})", "")
    assert links(before) == [line_of(before, f"{into}[k] = x[k] * torch.rand(4)")]


def test_noise_that_is_drawn_before_the_batch_is_cut() -> None:
    before = written("x = x * 2", MODEL, "model(x)", "")
    before = before.replace("x, y = inputs[rows], labels[rows]", "x, y = t + inputs[rows], labels[rows]")
    before = before.replace("    rows =", "    t = torch.randn(8, 4)\n    rows =")
    assert links(before) == []
