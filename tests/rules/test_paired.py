"""Samples that are paired with rows of something else by their places in the batch: a rank's own begin at 0, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, converted, line_of, script

Written = Callable[[str, str, str], str]
LOSS = "nn.functional.mse_loss(model(x), y)"
CUT = """\
inputs, labels = torch.randn(64, 4), torch.randn(64, 1)
for step in range(20):
    rows = torch.randint(0, len(inputs), (8,))
    x, y = inputs[rows], labels[rows]
    {turn}
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TABLE = "table = torch.randn(64, 4)\n"


def of_a_loader(setup: str, turn: str, loss: str) -> str:
    turn = turn.replace("\n", "\n        ")
    return script(
        setup=setup, loop=LOOP.replace("        loss = ", f"        {turn}\n        loss = ").replace(LOSS, loss)
    )


def cut_by_hand(setup: str, turn: str, loss: str) -> str:
    loop = CUT.replace("{turn}", turn.replace("\n", "\n    ")).replace("{loss}", loss)
    return script(imports=IMPORTS, data="", loader="", setup=setup, loop=loop)


def links(before: str) -> list[int]:
    conversion = conversion_of(before, options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "takes rows by numbers" in one.message]
    assert (conversion.strategy is Strategy.SHARED) is bool(found)
    return [one.place.line for one in found if one.place]


COUNTED = [
    ("x = x + table[: len(x)]", LOSS),
    ("x = x + table[: x.size(0)]", LOSS),
    ("x = x + table[torch.arange(x.size(0))]", LOSS),
    ("x = x + table[torch.arange(len(x)) % table.size(0)]", LOSS),
    ("x = x + table[torch.randperm(len(x))]", LOSS),
    ("x = x + table.index_select(0, torch.arange(len(x)))", LOSS),
    ("x = x + torch.tensor(numbers[: len(x)])[:, None]", LOSS),
    ("x = x + read[: len(x)]", LOSS),
]
SAFE = [
    ("x = x * 2", LOSS),
    ("x = x + table[0]", LOSS),
    ("x = x + table[torch.arange(x.size(1))]", LOSS),  # places within a sample
    ("x = x + table[torch.arange(4), : x.size(1)]", LOSS),
    ("x = x + ones[: len(x)]", LOSS),  # the same for all
    ("x = x + zeros[: x.size(0)]", LOSS),
    ("x = x + table[torch.full((len(x),), 3)]", LOSS),  # one row for all
    ("p = model(x)[torch.arange(len(x)), 0]", "nn.functional.mse_loss(p, y[:, 0])"),  # the batch's own
    ("p = table[y.long()[:, 0]]", "nn.functional.mse_loss(model(x + p), y)"),  # each sample's own
]
SETUP = f"{TABLE}ones, zeros = torch.ones(64, 4), torch.zeros(64, 4)\n"


@pytest.mark.parametrize("written", [of_a_loader, cut_by_hand])
@pytest.mark.parametrize(("turn", "loss"), COUNTED)
def test_rows_by_place(written: Written, turn: str, loss: str) -> None:
    before = written(f"{TABLE}numbers, read = [float(i) for i in range(64)], torch.load('rows.pt')\n", turn, loss)
    assert links(before) == [line_of(before, turn)]


@pytest.mark.parametrize("written", [of_a_loader, cut_by_hand])
@pytest.mark.parametrize(("turn", "loss"), SAFE)
def test_rows_that_are_right(written: Written, turn: str, loss: str) -> None:
    assert links(written(SETUP, turn, loss)) == []


def test_what_is_cut_by_the_size_of_a_batch_is_not_cut_once_more() -> None:
    """`table` moves at random, as it is drawn: a cut of it is a batch, but for one by the size of another."""
    before = cut_by_hand(TABLE, "p = table[: x.size(0)] * 0.5", "nn.functional.mse_loss(model(x + p), y)")
    assert "shard_batch" not in converted(before, options=Options())
    assert links(before) == [line_of(before, "p = table")]


def test_a_row_for_each_turn_of_a_loop() -> None:
    turn = "parts = []\nfor i in range(len(x)):\n    parts.append(x[i] + table[i])\nx = torch.stack(parts)"
    before = of_a_loader(TABLE, turn, LOSS)
    assert links(before) == [line_of(before, "parts.append")]


@pytest.mark.parametrize("drawn", ["table = torch.randn(8, 4)", "table = torch.rand(len(x), 4)"])
def test_what_each_rank_draws_for_its_own_batch(drawn: str) -> None:
    assert links(of_a_loader("", f"{drawn}\nx = x + table[: len(x)]", LOSS)) == []
