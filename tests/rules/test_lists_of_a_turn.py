"""Lists that a turn makes and fills, where there are several loops: new in each turn, unless they are kept."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import conversion_of

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), batch_size=8, shuffle=True)
other = DataLoader(TensorDataset(torch.randn(8, 4), torch.randn(8, 1)), batch_size=8)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.head = nn.Linear(12, 1)
        self.kept = None

    def forward(self, a):
        lows = []
        for one in self.body:
            lows.append(one(a))
        KEEPS
        return self.head(torch.cat(lows, dim=1))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = """\
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
ONE_FUNCTION = f"""\
def run_epoch(loader, optimizer=None):
    total = 0.0
    for x, y in loader:
        loss = nn.functional.l1_loss(model(x), y)
        if optimizer is not None:
{STEP.replace("        ", "            ")}\
        total += loss.item()
    return total / len(loader)


for epoch in range(2):
    run_epoch(loader, optimizer)
    print(run_epoch(other))
"""
TWO_LOOPS = f"""\
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.l1_loss(model(x), y)
{STEP}\
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += nn.functional.l1_loss(model(x), y).item()
    print(total)
"""
AT_ONCE = f"""\
for epoch in range(2):
    for x, y in loader:
        sides = []
        for i in range(2):
            sides.append(model(x * i))
        loss = (torch.cat(sides, dim=1) - y).abs().mean()
{STEP}\
    total = 0.0
    for x, y in loader:
        total += len(x)
    print(total)
"""
KEPT = "keeps samples from one batch to the next"


def kept(loops: str, keeps: str = "pass", head: str = HEAD) -> tuple[Strategy | None, list[str]]:
    """How it is converted, and the lines that keep samples."""
    before = head.replace("KEEPS", keeps.replace("\n", "\n        ")) + loops
    conversion = conversion_of(before, options=Options())
    found = [one.place.line for one in conversion.of(Level.ADVICE) if KEPT in one.message and one.place]
    return conversion.strategy, [before.splitlines()[line - 1].strip() for line in found]


@pytest.mark.parametrize("loops", [ONE_FUNCTION, TWO_LOOPS, AT_ONCE])
def test_a_list_of_each_turn(loops: str) -> None:
    """However many loops there are over one loader, and however often a function with one is called."""
    assert kept(loops) == (Strategy.SHARDED, [])


@pytest.mark.parametrize("loops", [ONE_FUNCTION, TWO_LOOPS])
@pytest.mark.parametrize(
    ("keeps", "lines"),
    [
        ("if self.kept:\n    lows[0] = lows[0] + self.kept[0]\nself.kept = lows", ["self.kept = lows"]),
        (
            "self.kept = self.kept or []\nself.kept.append(lows)\nlows = self.kept[0]",
            ["self.kept = self.kept or []"],
        ),
        (
            "if self.kept is None:\n    self.kept = []\nself.kept.append(lows[0])\nlows[0] = self.kept[0]",
            ["self.kept = []", "self.kept.append(lows[0])"],
        ),
    ],
)
def test_a_list_that_the_model_keeps(loops: str, keeps: str, lines: list[str]) -> None:
    strategy, found = kept(loops, keeps)
    assert strategy is Strategy.SHARED
    assert set(lines) <= set(found)


@pytest.mark.parametrize("filled", ["[]", "[x]"])
@pytest.mark.parametrize(
    "pick", ["lambda x: look_at(kept, x)", "partial(look_at, kept)", "lambda x: kept[0]", "[partial(look_at, kept)][0]"]
)
def test_a_list_of_a_loop_that_is_over_and_only_a_function_holds(pick: str, filled: str) -> None:
    """It is made in no turn of the loop that trains, whatever it is reached by."""
    loops = f"""\
from functools import partial


def look_at(kept, x):
    kept.append(x)
    return kept[0]


def prepare():
    for x, y in loader:
        kept = {filled}
        kept.append(x)
    return {pick}


chosen = prepare()
for epoch in range(2):
    for x, y in loader:
        loss = (model(chosen(x)) - y).abs().mean()
{STEP}\
"""
    strategy, lines = kept(loops)
    assert strategy is Strategy.SHARED
    assert lines


@pytest.mark.parametrize("way", ["kept.append", "lambda x: kept.append(x)"])
def test_a_list_of_a_loop_that_is_over_and_another_one_fills(way: str) -> None:
    """It is reached by what was made of it, in a function that knows no name for it."""
    loops = f"""\
def look():
    for x, y in loader:
        kept = []
        kept.append(model(x).detach())
    fit({way}, lambda: kept)


def fit(add, get):
    for x, y in loader:
        add(model(x))
        loss = (torch.cat(get())[-8:] - y).abs().mean()
{STEP}\

look()
"""
    strategy, lines = kept(loops)
    assert strategy is Strategy.SHARED
    assert lines


def test_a_list_of_what_a_loop_goes_over() -> None:
    """`for x, y, seen in Batches(loader)`: it is made once, before the first turn."""
    loops = f"""\
class Batches:
    def __init__(self, loader):
        self.batches = iter(loader)
        self.seen = []

    def __iter__(self):
        return self

    def __next__(self):
        x, y = next(self.batches)
        self.seen.append(x)
        return x, y, self.seen


for epoch in range(2):
    for x, y, seen in Batches(loader):
        loss = (model(x) + model(seen[0]) - y).abs().mean()
{STEP}\
"""
    strategy, lines = kept(loops)
    assert strategy is Strategy.SHARED
    assert "self.seen.append(x)" in lines


def test_a_list_that_a_generator_makes_for_each_batch() -> None:
    loops = f"""\
def batches():
    for x, y in loader:
        parts = []
        for i in range(2):
            parts.append(x * i)
        yield parts, y


for epoch in range(2):
    for parts, y in batches():
        loss = (model(parts[0]) + model(parts[1]) - y).abs().mean()
{STEP}\
"""
    assert kept(loops) == (Strategy.SHARDED, [])


BY_HAND = f"""\
import numpy as np
import torch
from torch import nn
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{{before}}
step = 0
while step < 8:
    {{turn}}
    for i in range(16):
        rows.append(np.random.uniform(0, 1, 4))
    x = torch.tensor(np.array(rows)).float()
    loss = (model(x) - x).abs().mean()
{STEP.replace("        ", "    ")}\
    step += 1
"""
OVER_TURNS, ONE_BY_ONE = "keeps samples from one batch to the next", "puts a batch together"


@pytest.mark.parametrize(
    ("before", "turn", "told"),
    [
        ("", "rows = []", ONE_BY_ONE),
        ("", "rows, others = [], []", ONE_BY_ONE),
        ("rows = []", "rows = list()", ONE_BY_ONE),
        ("rows = []", "pass", OVER_TURNS),
        ("rows = []", "rows = rows[-64:]", OVER_TURNS),
        ("rows = []", "if step % 2 == 0:\n        rows = []", OVER_TURNS),
    ],
)
def test_a_batch_that_is_made_sample_by_sample(before: str, turn: str, told: str) -> None:
    """Whether anything is kept for the next turn of training depends on where the list begins."""
    conversion = conversion_of(BY_HAND.format(before=before, turn=turn), options=Options())
    assert conversion.strategy is Strategy.SHARED
    (said,) = [one.message for one in conversion.of(Level.ADVICE) if "rows.append" in one.message]
    assert told in said
