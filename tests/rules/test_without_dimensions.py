"""A batch of one sample that `squeeze` has left without dimensions, and what is made of it again."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import LOOP, MODEL, conversion_of, script


def strategy_of(turn: str) -> Strategy | None:
    loop = LOOP.replace("        loss = ", f"        out = model(x).squeeze()\n{turn}        loss = ").replace(
        "(model(x), y)", "(out, y[:, 0])"
    )
    counted = "        total += out.sum().item()\n        seen += y.size(0)\n    print(total / seen)\n"
    before = script(model=MODEL, loop="total, seen = 0.0, 0\n" + loop + counted)
    return conversion_of(before, options=Options()).strategy


@pytest.mark.parametrize(
    ("test", "made"),
    [
        ("out.dim() == 0", "out.unsqueeze(0)"),
        ("out.ndim == 0", "out.unsqueeze(0)"),
        ("len(out.shape) == 0", "out.unsqueeze(dim=0)"),
        ("not out.dim() == 0", "out"),
    ],
)
def test_it_is_a_row_of_the_batch_again(test: str, made: str) -> None:
    assert strategy_of(f"        if {test}:\n            out = {made}\n") is Strategy.SHARDED


@pytest.mark.parametrize(
    ("test", "made"),
    [
        ("out.dim() == 1", "out.unsqueeze(0)"),
        ("out.dim() != 0", "out.unsqueeze(0)"),
        ("y.dim() == 0", "out.unsqueeze(0)"),
    ],
)
def test_where_samples_may_lie_along_another_dimension(test: str, made: str) -> None:
    assert strategy_of(f"        if {test}:\n            out = {made}\n") is Strategy.SHARED
