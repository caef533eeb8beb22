"""Figures that a generator, a function with arguments of its own, or a choice hands on are those of all ranks."""

from __future__ import annotations

import pytest

from tests.rules.scripts import IMPORTS, converted, script

STEPS = """\
def steps():
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield {given}


for epoch in range(3):
    {read}
"""


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("loss.item()", "rt.all_reduce_mean(loss.item())"),
        ("float(loss), epoch", "rt.all_reduce_mean(float(loss)), epoch"),
        ('{"loss": loss.item()}', '{"loss": rt.all_reduce_mean(loss.item())}'),
    ],
)
@pytest.mark.parametrize("read", ["print(max(steps()))", "kept = list(steps())\n    print(sorted(kept)[0])"])
def test_what_a_generator_hands_out_is_of_all_ranks(given: str, wanted: str, read: str) -> None:
    new = converted(script(loop=STEPS.format(given=given, read=read)))
    assert f"        yield {wanted}\n" in new
    assert new.count("all_reduce") == 1


@pytest.mark.parametrize("given", ["x, y", "epoch", "None"])
def test_what_is_no_figure_is_handed_out_as_it_is(given: str) -> None:
    new = converted(script(loop=STEPS.format(given=given, read="for kept in steps():\n        pass")))
    assert f"        yield {given}\n" in new
    assert "all_reduce" not in new


def test_a_loss_that_training_goes_back_through_is_handed_out_as_it_is() -> None:
    loop = """\
def losses():
    for x, y in loader:
        yield nn.functional.mse_loss(model(x), y)


for epoch in range(3):
    for loss in losses():
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    assert "        yield nn.functional.mse_loss(model(x), y)\n" in converted(script(loop=loop))


BEST = """\
best = 9.0
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        figure = loss.item()
        best = {chosen}
    print(best)
"""


def test_the_better_of_two_is_that_of_the_means() -> None:
    new = converted(script(loop=BEST.format(chosen="figure if figure < best else best")))
    assert "if global_figure < global_best else" in new


def test_a_choice_that_all_ranks_make_alike_is_a_mean_on_either_way() -> None:
    new = converted(script(loop=BEST.format(chosen="figure if epoch else best")))
    assert "best = rt.all_reduce_mean(figure if epoch else best)\n" in new


LOGGER = """\
import functools


class Logger:
    def __init__(self, name):
        self.file = open(name, "w")

    def log(self, level, text):
        self.file.write(f"{level} {text}\\n")

    METHOD


logger = Logger("log.txt")
"""


@pytest.mark.parametrize(
    "method",
    ['debug = functools.partialmethod(log, "DEBUG")', 'def debug(self, text):\n        self.log("DEBUG", text)'],
)
def test_a_method_with_arguments_of_its_own_does_what_its_function_does(method: str) -> None:
    loop = BEST.replace("best = {chosen}", "logger.debug(figure)")
    new = converted(script(imports=IMPORTS + LOGGER.replace("METHOD", method), loop=loop))
    assert "logger.debug(rt.all_reduce_mean(figure))\n" in new
