"""Generators of the script's own have one seed on all ranks: what is drawn from them for samples would be alike."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import LOOP, conversion_of, line_of, script

IMPORTS = """\
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split
"""
GENERATORS = """\
g = torch.Generator().manual_seed(3)
rng = np.random.default_rng(3)
coins = random.Random(3)
"""


def of_a_loader(turn: str, setup: str = GENERATORS) -> str:
    turn = turn.replace("\n", "\n        ")
    return script(
        imports=IMPORTS, setup=setup, loop=LOOP.replace("        loss = ", f"        {turn}\n        loss = ")
    )


def of_a_data_set(made: str, item: str, setup: str = "") -> str:
    data = f"""\
class Rows(Dataset):
    def __init__(self):
        self.rows = torch.randn(64, 4)
        {made}

    def __len__(self):
        return 64

    def __getitem__(self, index):
        {item}
        return row, row[:1]


data = Rows()
"""
    return script(imports=IMPORTS, setup=setup, data=data)


def links(before: str) -> list[int]:
    conversion = conversion_of(before, options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "has the same seed on all ranks" in one.message]
    assert (conversion.strategy is Strategy.SHARED) is bool(found)
    return [one.place.line for one in found if one.place]


@pytest.mark.parametrize(
    "turn",
    [
        "x = x + torch.randn(len(x), 4, generator=g)",
        "x = x + torch.normal(0.0, 0.1, x.shape, generator=g)",
        "x = x + torch.empty_like(x).normal_(generator=g)",
        "x = x * torch.bernoulli(torch.full((len(x), 1), 0.5), generator=g)",
        "x = x[torch.randperm(len(x), generator=g)] + x",
        "x = x * torch.tensor([rng.random() for _ in range(len(x))])[:, None]",
        "x = torch.stack([row if coins.random() < 0.5 else -row for row in x])",
        "x = x + torch.randn(x.shape, generator=torch.Generator().manual_seed(epoch))",
    ],
)
def test_what_is_drawn_for_the_samples_of_a_share(turn: str) -> None:
    before = of_a_loader(turn)
    assert links(before) == [line_of(before, turn)]


@pytest.mark.parametrize(
    "turn",
    [
        "x = x + torch.randn_like(x)",  # from the script's stream: each rank's own
        "x = x * torch.rand(1, generator=g)",  # one for all
        "x = x + torch.randn(4, generator=g)",
        "x = x * float(rng.uniform(0.5, 1.0))",
        "if coins.random() < 0.5:\n    x = -x",
        "print(torch.randn(len(x), generator=g))",
        "x = x + table[y.long()[:, 0]]",
    ],
)
def test_what_is_drawn_for_all(turn: str) -> None:
    assert links(of_a_loader(turn, f"{GENERATORS}table = torch.randn(64, 4, generator=g)\n")) == []


IN_DATA_SETS = [
    ("self.g = torch.Generator().manual_seed(1)", "row = self.rows[index] + torch.randn(4, generator=self.g)"),
    ("self.rng = np.random.default_rng(0)", "row = self.rows[index] * float(self.rng.normal())"),
    ("self.rng = random.Random(0)", "row = self.rows[index] if self.rng.random() < 0.5 else -self.rows[index]"),
]
RIGHT_IN_DATA_SETS = [
    ("self.rng = None", "row = self.rows[index] * float(np.random.default_rng(index).normal())"),
    ("self.rng = None", "self.rng = random.Random(index); row = self.rows[index] * self.rng.random()"),
    (
        "self.g = torch.Generator()",
        "self.g.manual_seed(index); row = self.rows[index] + torch.randn(4, generator=self.g)",
    ),
    ("self.rows *= torch.rand(64, 1, generator=torch.Generator().manual_seed(1))", "row = self.rows[index]"),
    ("self.rng = random.Random(0); self.rng.shuffle([1, 2])", "row = self.rows[index]"),
    ("self.rng = None", "row = self.rows[index] + torch.randn(4)"),
]


@pytest.mark.parametrize(("made", "item"), IN_DATA_SETS)
def test_what_a_data_set_draws_for_a_sample(made: str, item: str) -> None:
    before = of_a_data_set(made, item)
    assert links(before) == [line_of(before, item)]


@pytest.mark.parametrize("generator", ["np.random.default_rng(3)", "np.random.default_rng()"])
@pytest.mark.parametrize("item", ["row = self.rows[index] * rng.random()", "row = noisy(self.rows[index])"])
def test_what_is_drawn_for_a_sample_from_a_generator_of_the_module(item: str, generator: str) -> None:
    """By the data set itself, or by a function that it calls."""
    setup = f"rng = {generator}\n\n\ndef noisy(row):\n    return row + torch.tensor(rng.normal(size=4)).float()\n\n\n"
    before = of_a_data_set("pass", item, setup)
    drawn = item if "rng" in item else "rng.normal(size=4)"
    assert links(before) == [line_of(before, drawn)]


def test_a_generator_of_the_module_that_no_sample_draws_from() -> None:
    setup = "rng = np.random.default_rng(3)\nnumbers = rng.permutation(64)\n"
    assert links(of_a_data_set("pass", "row = self.rows[numbers[index]]", setup)) == []


@pytest.mark.parametrize(("made", "item"), RIGHT_IN_DATA_SETS)
def test_what_is_each_sample_s_own(made: str, item: str) -> None:
    assert links(of_a_data_set(made, item)) == []


def test_a_transform_that_a_data_set_calls() -> None:
    setup = """\
class Noise:
    def __init__(self):
        self.g = torch.Generator().manual_seed(1)

    def __call__(self, row):
        return self.noisy(row)

    def noisy(self, row):
        return row + torch.randn(4, generator=self.g)
"""
    before = of_a_data_set("self.transform = Noise()", "row = self.transform(self.rows[index])", setup)
    assert links(before) == [line_of(before, "return row + torch")]


def test_what_splits_the_data() -> None:
    data = "data = random_split(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), [48, 16], generator=g)[0]\n"
    assert links(script(imports=IMPORTS, setup=GENERATORS, data=data)) == []
