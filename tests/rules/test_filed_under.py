"""What is filed under, or taken out by, what training gives: which list takes it is for all ranks to agree on."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, converted, script

TOOLS = f"import collections\n{IMPORTS}"
SETUP = "low, high, table = [], [], collections.defaultdict(list)\n"
BY_A_FIGURE = [
    "(low if {} < 1 else high).append(epoch)",
    "[low, high][{} > 1].append(epoch)",
    "table[int({})].append(epoch)",
    "table.setdefault(round({}), []).append(epoch)",
    "table.get(round({}), low).append(epoch)",
    "table.pop(round({}), None)",
]
BY_SAMPLES = [
    "for label in y.flatten().tolist():\n            table[label].append(epoch)",
    "[table[label].append(epoch) for label in y.flatten().tolist()]",
    "table[y[0].item()].append(epoch)",
    "table.setdefault(y[0].item(), []).append(epoch)",
]


def _script(line: str) -> str:
    return script(imports=TOOLS, setup=SETUP, loop=f"{LOOP}        {line}\nprint(low, high, table)\n")


@pytest.mark.parametrize("line", BY_A_FIGURE)
def test_by_the_mean(line: str) -> None:
    assert f"        {line.format('rt.all_reduce_mean(loss.item())')}\n" in converted(
        _script(line.format("loss.item()"))
    )


@pytest.mark.parametrize("line", BY_SAMPLES)
def test_by_a_rank_s_own_samples(line: str) -> None:
    assert conversion_of(_script(line), options=Options()).strategy is Strategy.SHARED


@pytest.mark.parametrize("line", BY_A_FIGURE)
def test_by_what_is_alike_on_all_ranks(line: str) -> None:
    before = _script(line.format("epoch"))
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARDED
    assert "all_reduce" not in converted(before)
