"""What is drawn between passes, where ranks draw apart: a link, unless nothing comes of it but what is shown."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, OPTIMIZER, conversion_of, line_of, script

MORE = f"""\
import random
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sklearn.utils
from torchvision.utils import save_image
{IMPORTS}"""
CLASS = """
class Rows:
    def __init__(self):
        self.rows = torch.randn(64, 4)
        self.order = list(range(64))

    def choose(self):
        {body}

    def __len__(self):
        return 64

    def __getitem__(self, number):
        return self.rows[self.order[number]], self.rows[number, :1]


data = Rows()
"""


def links(before: str) -> list[int]:
    """The lines of draws that stand in the way of sharded data."""
    conversion = conversion_of(before, options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "draws between passes" in one.message]
    assert (conversion.strategy is Strategy.SHARED) is bool(found)
    return [one.place.line for one in found if one.place]


@pytest.mark.parametrize(
    "body",
    [
        "self.order = torch.argsort(torch.rand(64)).tolist()",
        "self.order = sorted(range(64), key=lambda _: random.random())",
        "self.order.sort(key=lambda _: random.random())",
        "self.order = [self.order[k] for k in np.argsort(np.random.rand(64))]",
        "for i in range(63, 0, -1):\n            j = int(random.random() * i)\n"
        "            self.order[i], self.order[j] = self.order[j], self.order[i]",
        "pool = list(self.order)\n        self.order = [pool.pop(int(random.random() * len(pool))) for _ in range(64)]",
        "self.rows = self.rows + torch.randn(1)",
        "self.order = sklearn.utils.shuffle(self.order)",
    ],
)
def test_what_data_keep_of_a_draw(body: str) -> None:
    """Else ranks would train on some samples twice, and on others never."""
    loop = LOOP.replace("    for x", "    data.choose()\n    for x")
    before = script(imports=MORE, data=CLASS.format(body=body), loop=loop)
    first = next(line for line in body.split("\n") if "rand" in line or "sklearn" in line or "normal_" in line)
    assert links(before) == [line_of(before, first.strip())]


@pytest.mark.parametrize(
    "line",
    [
        "kept.append(torch.rand(4))",
        "kept = torch.rand(4)",
        "shift = torch.rand(4)\n    kept = shift * 2",
        "target = nn.Linear(4, 1)",
        "frame.insert(0, epoch, torch.rand(4).numpy())",
    ],
)
def test_what_is_kept_for_other_functions(line: str) -> None:
    body = "\n\ndef look():\n    return kept, target, frame\n\n\n"
    loop = LOOP.replace("    for x", f"    {line}\n    for x").replace(
        "(model(x), y)", "(model(x), y) + target(x).mean()"
    )
    before = script(
        imports=MORE, setup=f"kept = []\nframe = pd.DataFrame()\ntarget = nn.Linear(4, 1)\n{body}", loop=loop
    )
    assert len(links(before)) == 1


@pytest.mark.parametrize(("line", "number"), [("scale = torch.rand(1)", 1), ("scale = 2.0", 0)])
def test_what_goes_into_a_loss(line: str, number: int) -> None:
    loop = LOOP.replace("    for x", f"    {line}\n    for x").replace("model(x)", "model(x) * scale")
    assert len(links(script(loop=loop))) == number


@pytest.mark.parametrize(
    "line",
    [
        "print(torch.rand(1).item())",
        "z = torch.randn(8, 4)\n    shown = model(z)\n    print(shown.mean())",
        "save_image(model(torch.randn(8, 4)), 'shown.png')",
        "for a, b in loader:\n        shown = model(a + torch.randn(1))",
        "z = torch.randn(4, 4)\n    for n, ax in enumerate(plt.subplots(2, 2)[1].flatten()):\n        ax.imshow(z[n])",
        "order = np.random.permutation(64)",
        "rows = torch.rand(4, generator=torch.Generator().manual_seed(epoch))",
        "order = np.random.RandomState(epoch).rand(64)",
        "scale = 2 ** epoch",
    ],
)
def test_what_is_shown_is_nothing_for_the_samples_of_all(line: str) -> None:
    loop = LOOP + f"    {line}\n"
    assert links(script(imports=MORE, loop=loop)) == []


DECODER = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.kept = nn.Linear(4, 3), nn.Linear(3, 1), 0.0

    def decode(self, z):
        {decode}

    def forward(self, x):
        return self.second(self.first(x)) + self.kept
"""


@pytest.mark.parametrize(
    ("decode", "is_link"),
    [
        ("hidden = torch.relu(self.first(z))\n        return self.second(hidden)", False),
        ("self.kept = z.mean()\n        return self.second(self.first(z))", True),
        ("shift = z.mean()\n        self.kept += shift\n        return self.second(self.first(z))", True),
        ("LATER.append(z)\n        return self.second(self.first(z))", True),
    ],
    ids=["gives back", "keeps", "keeps by another name", "keeps in a list"],
)
def test_a_draw_is_followed_into_functions(decode: str, is_link: bool) -> None:
    shown = "    shown = model.decode(torch.randn(8, 4)).cpu()\n    save_image(shown.view(8, 1, 1, 1), 'shown.png')\n"
    before = script(
        imports=MORE, setup=f"LATER = []\n{DECODER.format(decode=decode)}", model="model = Net()\n", loop=LOOP + shown
    )
    assert len(links(before)) == is_link


def test_what_a_batch_draws_for_itself() -> None:
    assert links(script(loop=LOOP.replace("model(x)", "model(x + torch.randn(4))"), optimizer=OPTIMIZER)) == []
