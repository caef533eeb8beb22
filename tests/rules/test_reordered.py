"""What is no longer an entry for each sample, nor the mean that it was: what is sorted, shuffled, or cut."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import IMPORTS, conversion_of, converted, script

LOOP = """\
worst = []
for epoch in range(3):
    for x, y in loader:
        guess = model(x)
        loss = nn.functional.mse_loss(guess, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        each = nn.functional.mse_loss(guess, y, reduction="none").detach()
        LINE
    print(worst)
"""


def _script(line: str) -> str:
    return script(imports=f"{IMPORTS}import math\nimport numpy as np\nimport random\n", loop=LOOP.replace("LINE", line))


SORTED = {
    "sort": "rows = each.numpy(); rows.sort(axis=0); worst.append(rows[-1].item())",
    "partition": "rows = each.numpy(); rows.partition(3, axis=0); worst.append(rows[3].item())",
    "a list": "rows = each.flatten().tolist(); rows.sort(); worst.append(rows[-1])",
    "turned round": "rows = each.flatten().tolist(); rows.reverse(); worst.append(rows[0])",
    "shuffled": "rows = each.numpy(); np.random.shuffle(rows); worst.append(rows[0].item())",
    "shuffled by a generator": "rows = each.numpy(); np.random.default_rng(0).shuffle(rows); worst.append(rows[0].item())",
    "a shuffled list": "rows = each.flatten().tolist(); random.shuffle(rows); worst.append(rows[0])",
}


@pytest.mark.parametrize("line", SORTED.values(), ids=SORTED)
def test_entries_of_another_order_are_not_put_together(line: str) -> None:
    assert conversion_of(_script(line), options=Options()).strategy is Strategy.SHARED


def test_of_a_copy_that_is_sorted_the_rows_are_put_together() -> None:
    new = converted(_script("rows = each.numpy(); worst.append(np.sort(rows, axis=0)[-1].item())"))
    assert "worst.append(np.sort(rt.gather_entries(rows), axis=0)[-1].item())" in new


CUT = {
    "int": ("worst.append(int(loss.item() * 5))", "worst.append(int(rt.all_reduce_mean(loss.item() * 5)))"),
    "round": ("worst.append(round(loss.item() * 5))", "worst.append(round(rt.all_reduce_mean(loss.item() * 5)))"),
    "floor": ("worst.append(math.floor(loss.item()))", "worst.append(math.floor(rt.all_reduce_mean(loss.item())))"),
}


@pytest.mark.parametrize(("line", "emitted"), CUT.values(), ids=CUT)
def test_what_is_cut_is_the_mean(line: str, emitted: str) -> None:
    assert f"        {emitted}\n" in converted(_script(line))
