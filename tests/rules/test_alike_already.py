"""METRIC01: figures that are alike on all ranks are not put together again, and texts never are."""

from __future__ import annotations

import pytest

from tests.rules.scripts import converted, script

LOGGED = """\
log = open("log.txt", "w")
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.write({})
"""
UNTIL = """\
losses = []
last = 9.0
while last > 0.05:
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    last = loss.item()
    losses.append(last)
"""


@pytest.mark.parametrize("name", ["str", "repr"])
def test_the_number_is_averaged_and_not_its_text(name: str) -> None:
    after = converted(script(loop=LOGGED.format(f"{name}(loss.item())")))
    assert f"log.write({name}(rt.all_reduce_mean(loss.item())))" in after


def test_the_text_of_a_number_that_is_alike_is_left() -> None:
    assert "all_reduce" not in converted(script(loop=LOGGED.format("str(epoch)")))


def test_what_is_made_of_averages_is_alike_once_the_loop_ends_alike() -> None:
    """The test of the loop is decided after the list was looked at: then the list is the same on all ranks."""
    after = converted(script(loop=UNTIL, after='open("sum.txt", "w").write("%.4f" % sum(losses))\n'))
    assert "losses.append(rt.all_reduce_mean(last))" in after
    assert "while rt.all_reduce_mean(last) > 0.05:" in after
    assert '"%.4f" % sum(losses)' in after
    assert after.count("rt.all_reduce_mean") == 2


def test_what_is_not_averaged_before_is_averaged_where_it_is_written() -> None:
    before = script(loop=UNTIL.replace("    losses.append(last)\n", ""), after='open("a", "w").write("%.4f" % last)\n')
    assert '"%.4f" % rt.all_reduce_mean(last)' in converted(before)
