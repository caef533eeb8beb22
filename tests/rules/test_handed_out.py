"""Figures that a generator, a function with arguments of its own, or a choice hands on are those of all ranks."""

from __future__ import annotations

import pytest
from distify_codemods import Options

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


KEPT = "class Keeper:\n    kept = []\n"
KEEPERS = {
    "a method": f"{KEPT}\n    def log(self, value):\n        self.kept.append(value)\n",
    "a function of the class body": f"{KEPT}    log = lambda self, value: self.kept.append(value)\n",
    "a total of the class": (
        "class Keeper:\n    total = 0.0\n\n    def log(self, value):\n        Keeper.total += value\n"
    ),
    "a method that is bound by hand": (
        "import types\n\n\nclass Keeper:\n    pass\n\n\ndef log(self, value):\n    self.kept = value\n\n\n"
        "Keeper.made = []\nkeeper = Keeper()\nkeeper.log = types.MethodType(log, keeper)\n"
    ),
}


@pytest.mark.parametrize("keeper", KEEPERS.values(), ids=KEEPERS)
def test_what_no_object_holds_is_put_together_as_it_is_handed_on(keeper: str) -> None:
    made = "" if "keeper =" in keeper else "keeper = Keeper()\n"
    loop = BEST.replace("best = {chosen}", "keeper.log(figure)")
    assert "keeper.log(rt.all_reduce_mean(figure))\n" in converted(script(imports=IMPORTS + keeper + made, loop=loop))


def test_what_an_object_holds_may_wait() -> None:
    keeper = "class Keeper:\n    def __init__(self):\n        self.kept = []\n\n    def log(self, value):\n"
    keeper += "        self.kept.append(value)\n\n\nkeeper = Keeper()\n"
    loop = BEST.replace("best = {chosen}", "keeper.log(figure)").replace("print(best)", "print(keeper.kept)")
    new = converted(script(imports=IMPORTS + keeper, loop=loop))
    assert "keeper.log(figure)\n" in new
    assert "rt.average_figures(keeper)\n" in new


RECORD = """\
class Record:
    made = []

    def __init__(self, figure):
        self.figure = figure

    def __new__(cls, *given):
        made = super().__new__(cls)
        cls.made.append(made)
        return made


"""


def test_a_record_that_nobody_takes_keeps_itself() -> None:
    loop = BEST.replace("best = {chosen}", "Record(figure)")
    assert "        Record(rt.all_reduce_mean(figure))\n" in converted(script(imports=IMPORTS + RECORD, loop=loop))


@pytest.mark.parametrize("given", ["epoch", "'text'"])
def test_what_is_alike_on_all_ranks_is_given_to_a_record_as_it_is(given: str) -> None:
    loop = BEST.replace("best = {chosen}", f"Record({given})")
    assert f"        Record({given})\n" in converted(script(imports=IMPORTS + RECORD, loop=loop))


RECORDER = """\
import contextlib


@contextlib.contextmanager
def recording():
    kept = []
    yield kept.append


record = contextlib.ExitStack().enter_context(recording())
"""


def test_a_function_that_nobody_has_seen_is_given_the_mean() -> None:
    loop = BEST.replace("best = {chosen}", "record(figure)")
    assert "        record(rt.all_reduce_mean(figure))\n" in converted(script(imports=IMPORTS + RECORDER, loop=loop))


WEAK = """\
import weakref


class Keeper:
    def __init__(self):
        self.kept = []

    def log(self, value):
        self.kept.append(value)


keeper = Keeper()
found = weakref.ref(keeper)
"""


@pytest.mark.parametrize("given", ["figure", "epoch"])
def test_a_method_of_something_unseen_that_the_script_defines(given: str) -> None:
    loop = BEST.replace("best = {chosen}", f"found().log({given})")
    wanted = "rt.all_reduce_mean(figure)" if given == "figure" else given
    assert f"        found().log({wanted})\n" in converted(script(imports=IMPORTS + WEAK, loop=loop))


TEXTS = ["float(f'{figure:.4f}')", "float('%.4f' % figure)", "Cut(figure)", "Whole(figure)"]
NUMBERS = """\
class Cut(float):
    def __new__(cls, value):
        return super().__new__(cls, min(value, 1.0))


class Whole(int):
    pass


"""


@pytest.mark.parametrize("read", TEXTS)
def test_what_is_read_of_a_text_or_a_number_of_ones_own_is_no_mean(read: str) -> None:
    loop = BEST.replace("        loss.backward()\n", "").replace("        optimizer.step()\n", "")
    loop = loop.replace("best = {chosen}", f"(loss / (1 + {read})).backward()\n        optimizer.step()")
    new = converted(script(imports=IMPORTS + NUMBERS, loop=loop), Options())
    assert any(one in new for one in ("rt.gather_samples(", "rt.data_parallel(", "% rt.mean_over_ranks(figure)"))
