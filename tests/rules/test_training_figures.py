"""METRIC01: sums over samples that leave the training loop are those of all ranks."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import blocked, changes, converted, distributed, findings, script

STEP = """\
        guess = model(x)
        loss = nn.functional.mse_loss(guess, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def counting(start: str, count: str, after: str, told: str = "", head: str = "for x, y in loader:") -> str:
    return f"for epoch in range(3):\n{start}{told}    {head}\n{STEP}        {count}\n{after}"


TOLD = "    loader.sampler.set_epoch(epoch)\n"


@pytest.mark.parametrize(
    ("start", "count", "names"),
    [
        ("    right = 0\n", "right += (guess > y).sum().item()", "right"),
        ("    right = 0\n", "right = right + (guess > y).sum().item()", "right"),
        ("    right, seen = 0, 0\n", "right += (guess > y).sum().item(); seen += len(y)", "right, seen"),
        ("    right = seen = 0\n", "right += (guess > y).sum().item(); seen += y.size(0)", "right, seen"),
        ("    right = 0.0\n", "right += loss.item() * len(x)", "right"),
        ("    right = torch.zeros(1)\n", "right += (guess > y).sum()", "right"),
    ],
)
def test_summed_after_the_loop(start: str, count: str, names: str) -> None:
    before = script(loop=counting(start, count, f"    print({names})\n"))
    after = f"    {names} = rt.all_reduce_sum({names})\n    print({names})\n"
    assert converted(before) == distributed(loop=counting(start, count, after, TOLD), prints=True)


def test_returned_by_a_function() -> None:
    body = f"    right = 0\n    for x, y in loader:\n{STEP}        right += (guess > y).sum().item()\n"
    before = script(loop=f"def train():\n{body}    return right / 64\n\n\nfor epoch in range(3): print(train())\n")
    assert "    right = rt.all_reduce_sum(right)\n    return right / 64\n" in converted(before)


def test_kept_in_a_list() -> None:
    count = "right += (guess > y).sum().item()"
    before = script(loop="kept = []\n" + counting("    right = 0\n", count, "    kept.append(right)\n"))
    assert "    right = rt.all_reduce_sum(right)\n    kept.append(right)\n" in converted(before)


def test_one_line_loop() -> None:
    step = "loss = nn.functional.mse_loss(model(x), y); optimizer.zero_grad(); loss.backward(); optimizer.step()"
    loop = f"for epoch in range(3):\n    seen = 0\n    for x, y in loader: {step}; seen += len(x)\n    print(seen)\n"
    assert "    seen = rt.all_reduce_sum(seen)\n    print(seen)\n" in converted(script(loop=loop))


@pytest.mark.parametrize(
    "after",
    [
        "    if right > 60: break\n",
        "    if right > best:\n        best = right\n        torch.save(model.state_dict(), 'a.pt')\n",
        "    sched.step(right / 64)\n",
    ],
)
def test_decisions_on_summed_figures_are_everyones(after: str) -> None:
    plan = "best = 0\nsched = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"
    count = "right += (guess > y).sum().item()"
    before = script(loop=plan + counting("    right = 0\n", count, after))
    assert blocked(before) == set()
    assert "    right = rt.all_reduce_sum(right)\n    " + after.split("\n")[0].strip() in converted(before)


def test_said_of_figures_that_stay_one_ranks() -> None:
    mean = script(loop=counting("    total = 0.0\n", "total += loss.item()", "    print(total / len(loader))\n"))
    assert changes("METRIC01", mean) == []
    assert findings("OUT01", mean, Level.ADVICE)
    summed = script(loop=counting("    seen = 0\n", "seen += len(x)", "    print(seen)\n"))
    assert not findings("OUT01", summed, Level.ADVICE)


@pytest.mark.parametrize(
    ("start", "count", "after"),
    [
        pytest.param("    total = 0.0\n", "total += loss.item()", "    print(total)\n", id="mean of batch means"),
        pytest.param("    right = 0\n", "right += (guess > y).sum().item()", "", id="never used"),
        pytest.param("    steps = 0\n", "steps += 1", "    print(steps)\n", id="steps"),
        pytest.param("    last = 0\n", "last = (guess > y).sum().item()", "    print(last)\n", id="last batch"),
        pytest.param("    right = 1\n", "right *= 2", "    print(right)\n", id="product"),
    ],
)
def test_left_alone(start: str, count: str, after: str) -> None:
    before = script(loop=counting(start, count, after))
    assert changes("METRIC01", before) == []
    assert "all_reduce_sum" not in converted(before)


def test_sum_that_goes_on_over_the_epochs() -> None:
    """Reduced after each epoch, what was summed before would count again on every rank."""
    loop = "right = 0\n" + counting("", "right += (guess > y).sum().item()", "    print(right)\n")
    after = converted(script(loop=loop))
    assert "right = rt.all_reduce_sum(right)" not in after
