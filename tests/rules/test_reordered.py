"""What is no longer an entry for each sample, nor the mean that it was: what is sorted, shuffled, or cut."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import IMPORTS, conversion_of, converted, script

LOOP = """\
rng = np.random.default_rng(0)
worst = []
total = 0
for epoch in range(3):
    for x, y in loader:
        guess = model(x)
        loss = nn.functional.mse_loss(guess, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        each = nn.functional.mse_loss(guess, y, reduction="none").detach()
        LINE
    print(worst, total)
"""


def _script(line: str) -> str:
    return script(imports=f"{IMPORTS}import math\nimport numpy as np\nimport random\n", loop=LOOP.replace("LINE", line))


SORTED = {
    "sort": "rows = each.numpy(); rows.sort(axis=0); worst.append(rows[-1].item())",
    "partition": "rows = each.numpy(); rows.partition(3, axis=0); worst.append(float(rows[-2:].sum()))",
    "a list": "rows = each.flatten().tolist(); rows.sort(); worst.append(rows[-1] + rows[-2])",
    "turned round": "rows = each.flatten().tolist(); rows.reverse(); worst.append(rows[0] + rows[1])",
    "shuffled": "rows = each.numpy(); np.random.shuffle(rows); worst.append(float(rows[-2:].sum()))",
    "shuffled by a generator": "rows = each.numpy(); rng.shuffle(rows); worst.append(float(rows[-2:].sum()))",
    "a shuffled list": "rows = each.flatten().tolist(); random.shuffle(rows); worst.append(rows[0] + rows[1])",
}


@pytest.mark.parametrize("line", SORTED.values(), ids=SORTED)
def test_entries_of_another_order_are_not_put_together(line: str) -> None:
    assert conversion_of(_script(line), options=Options()).strategy is Strategy.SHARED


def test_of_a_copy_that_is_sorted_the_rows_are_put_together() -> None:
    new = converted(_script("rows = each.numpy(); worst.append(np.sort(rows, axis=0)[-1].item())"))
    assert "worst.append(np.sort(rt.gather_entries(rows), axis=0)[-1].item())" in new


CUT = {
    "int": ("total += int(loss.item() * 5)", "total += int(rt.all_reduce_mean(loss.item() * 5))"),
    "round": ("total += round(loss.item() * 5)", "total += round(rt.all_reduce_mean(loss.item() * 5))"),
    "floor": ("total += loss.item() // 3", "total += rt.all_reduce_mean(loss.item()) // 3"),
}


@pytest.mark.parametrize(("line", "emitted"), CUT.values(), ids=CUT)
def test_what_is_cut_is_the_mean(line: str, emitted: str) -> None:
    assert f"        {emitted}\n" in converted(_script(line))
