"""Figures that are reckoned from means and counts, and shown under a name: put together where they are reckoned."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, converted, indented, script

STEP = "        optimizer.step()\n"
COUNTS = "right = ((model(x) > 0) == (y > 0)).sum().item()\nwrong = ((model(x) > 0) != (y > 0)).sum().item()\n"


def in_turns(lines: str) -> str:
    loop = LOOP.replace(STEP, STEP + indented(f"{lines}\n", " " * 8)).replace(
        "    for x", "    total, n = 0.0, 0\n    for x"
    )
    return script(imports=f"import math\n{IMPORTS}", setup="history, step = [], 0\n", loop=loop)


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            "ppl = math.exp(loss.item())\nprint(ppl)",
            "ppl = math.exp(rt.all_reduce_mean(loss.item()))",
        ),
        (
            "total += loss.item(); n += 1\nif n % 10 == 0:\n    ppl = math.exp(min(total / n, 20))\n    print(ppl)",
            "    ppl = math.exp(min(rt.all_reduce_mean(total / n), 20))",
        ),
        ("ppl = math.exp(loss.item())\nhistory.append(ppl)", "ppl = math.exp(rt.all_reduce_mean(loss.item()))"),
        (
            f"{COUNTS}score = 2 * right / (2 * right + wrong + 1)\nprint(score)",
            "score = 2 * global_right / (2 * global_right + global_wrong + 1)",
        ),
        (
            "bits: float = loss.item() ** 0.5\nprint(bits)",
            "bits: float = rt.all_reduce_mean(loss.item()) ** 0.5",
        ),
        (
            "try:\n    ppl = math.exp(loss.item())\nexcept OverflowError:\n    ppl = float('inf')\nprint(ppl)",
            "    ppl = math.exp(rt.all_reduce_mean(loss.item()))",
        ),
    ],
)
def test_a_figure_of_a_mean_is_one_of_the_mean_of_all(lines: str, after: str) -> None:
    assert indented(f"{after}\n", " " * 8) in converted(in_turns(lines), Options())


@pytest.mark.parametrize(
    "lines",
    [
        "spread = model(x).std().item()\nprint(spread)",
        "ppl = math.exp(loss.item())\nppl += 1\nprint(ppl)",
        "if y[0] > 0:\n    ppl = math.exp(loss.item())\n    print(ppl)",
        "largest = model(x).max().item()\nprint(largest)",
    ],
)
def test_what_is_no_figure_of_means_and_counts_needs_whole_batches(lines: str) -> None:
    assert conversion_of(in_turns(lines), options=Options()).strategy is Strategy.SHARED


@pytest.mark.parametrize("lines", ["ppl = math.exp(loss.item())", "ppl = math.exp(3 * epoch)\nprint(ppl)"])
def test_what_nobody_sees_and_what_is_alike_stay(lines: str) -> None:
    after = converted(in_turns(lines), Options())
    assert "all_reduce_mean" not in after
