"""METRIC01: figures that a loop keeps are put together where something looks at them, not where they are kept."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, converted, line_of, script
from tests.rules.test_training_figures import METER, STEP

SETUP = """\
class Smooth:
    def __init__(self):
        self.value, self.last, self.all = None, 0.0, []

    def update(self, value):
        self.value = value if self.value is None else 0.9 * self.value + 0.1 * value
        self.last = value
        self.all.append(value)

    def most(self, value):
        self.last = max(self.last, value)

    def climb(self, value):
        if value > self.last:
            self.last = value

    def write(self, value):
        self.all.append(f"{value:.3f}")

    def judge(self, value):
        self.last = value > 0.5

    def step(self, value):
        self.last += value // 2

    def tell(self, value):
        self.last += value
        print(self.last)


class Board:
    def __init__(self, *meters):
        self.meters = meters

    def show(self):
        print([vars(meter) for meter in self.meters])


meter, smooth, seen, table = Meter(), Smooth(), [], {"loss": 0.0}
board = Board(meter, smooth)
"""


def turns(*lines: str, after: str = "", head: str = "for x, y in loader:") -> str:
    """A training loop with lines behind its step."""
    body = "".join(f"        {line}\n" for line in lines)
    return f"for epoch in range(3):\n    {head}\n{STEP}{body}{after}"


def behind_the_step(*lines: str, after: str = "", head: str = "for x, y in loader:", setup: str = "") -> str:
    """What the conversion makes of these lines, and of what follows."""
    before = script(imports=f"import math\n{IMPORTS}", setup=f"{METER}{SETUP}{setup}",
                    loop=turns(*lines, after=after, head=head))  # fmt: skip
    return converted(before).split("optimizer.step()\n")[1]


SHOWN = "if epoch % 10 == 0:\n            board.show()"


@pytest.mark.parametrize(
    ("kept", "whole"),
    [
        ("meter.update(loss.item())", "meter.update(loss.item())"),
        ("meter.update(loss.item(), len(x))", "meter.update(loss.item(), len(x) * rt.world_size())"),
        ("meter.update((guess > y).sum().item())", "meter.update((guess > y).sum().item() * rt.world_size())"),
        ("meter.sum += loss.item()", "meter.sum += loss.item()"),
        ("meter.sum += loss.item() * len(x)", "meter.sum += (loss.item() * len(x)) * rt.world_size()"),
    ],
)
def test_a_meter_is_averaged_before_it_is_shown(kept: str, whole: str) -> None:
    assert behind_the_step(kept, SHOWN) == (
        f"        {whole}\n"
        "        if epoch % 10 == 0:\n"
        "            rt.average_figures(meter)\n"
        "            board.show()\n"
        "    rt.average_figures(meter)\n"
    )


@pytest.mark.parametrize(
    ("kept", "holder"),
    [
        ("smooth.update(loss.item())", "smooth"),
        ("seen.append(loss.item())", "seen"),
        ("seen.append((epoch, loss.item()))", "seen"),
        ("seen.append({'epoch': epoch, 'loss': loss.item()})", "seen"),
        ("table['loss'] += loss.item()", "table"),
    ],
)
def test_what_is_looked_at_after_the_loop_alone_is_averaged_there(kept: str, holder: str) -> None:
    after = "    print(smooth.last, seen, table)\n"
    assert behind_the_step(kept, after=after) == f"        {kept}\n    rt.average_figures({holder})\n{after}"


def test_all_figures_of_a_place_in_one_collective() -> None:
    assert behind_the_step("meter.update(loss.item())", "smooth.update(loss.item())", SHOWN) == (
        "        meter.update(loss.item())\n"
        "        smooth.update(loss.item())\n"
        "        if epoch % 10 == 0:\n"
        "            rt.average_figures(meter, smooth)\n"
        "            board.show()\n"
        "    rt.average_figures(meter, smooth)\n"
    )


def test_what_was_averaged_is_not_again_before_more_is_kept() -> None:
    shown = "if epoch % 10 == 0:\n            print(meter.sum)\n            board.show()\n            seen.clear()"
    assert behind_the_step("meter.update(loss.item())", shown).count("average_figures") == 2  # there, and at the end


def test_a_meter_of_a_function_that_nothing_reads_after_the_loop() -> None:
    body = "    mine = Meter()\n    for number, (x, y) in enumerate(loader):\n"
    body += STEP + "        mine.update(loss.item())\n        if number % 10 == 0: print(mine.sum / mine.count)\n"
    after = converted(script(setup=METER, loop=f"def train():\n{body}\n\nfor epoch in range(3): train()\n"))
    assert after.count("average_figures") == 1
    assert (
        "if number % 10 == 0:\n            rt.average_figures(mine)\n            print(mine.sum / mine.count)\n"
        in after
    )


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("smooth.most(loss.item())", id="an extreme"),
        pytest.param("smooth.climb(loss.item())", id="a test of it"),
        pytest.param("smooth.write(loss.item())", id="a text"),
        pytest.param("smooth.judge(loss.item())", id="a verdict"),
        pytest.param("smooth.step(loss.item())", id="its whole part"),
        pytest.param("smooth.tell(loss.item())", id="shown on the way"),
        pytest.param("seen.append(math.exp(loss.item()))", id="a function of it"),
        pytest.param("seen.append(f'{loss.item():.2f}')", id="a text of it"),
        pytest.param("seen.append([loss.item(), f'{loss.item():.2f}'])", id="a text beside it"),
    ],
)
def test_what_is_no_sum_of_the_ranks_figures_is_put_together_where_it_is_kept(line: str) -> None:
    after = behind_the_step(line, SHOWN)
    assert "rt.all_reduce_mean(loss.item())" in after
    assert "average_figures" not in after


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("meter.update(loss.item())", "board.show()"), id="in each turn"),
        pytest.param(("meter.update(loss.item())", "if meter.sum > 3:\n            break"), id="decided by each turn"),
        pytest.param(("meter.update(loss.item()); board.show()",), id="in its own line"),
        pytest.param(("meter.update(loss.item())", "guess[0, 0] > 0 and board.show()"), id="by some"),
        pytest.param(("meter.update(loss.item())", "for _ in range(epoch):\n            board.show()"), id="in a loop"),
        pytest.param(("meter.update(loss.item())", "if epoch % 2:\n            exec('meter.sum')\n        show()"),
                     id="by a function that knows it"),
    ],
)  # fmt: skip
def test_what_is_looked_at_in_each_turn_or_by_some_is_put_together_where_it_is_kept(lines: tuple[str, ...]) -> None:
    after = behind_the_step(*lines, setup="def show():\n    print(meter.sum)\n\n\n")
    assert "meter.update(rt.all_reduce_mean(loss.item()))" in after
    assert "average_figures" not in after


def test_a_generator_that_shows_meters_between_batches() -> None:
    """`for x, y in log_every(loader)`: it looks at them in each turn, if it likes."""
    every = "class Log:\n    def __init__(self):\n        self.meter = Meter()\n\n    def every(self, loader):\n"
    every += "        for number, batch in enumerate(loader):\n            yield batch\n"
    every += "            if number % 10 == 0:\n                print(self.meter.sum)\n\n\nlog = Log()\n"
    after = behind_the_step("log.meter.update(loss.item())", head="for x, y in log.every(loader):", setup=every)
    assert "log.meter.update(rt.all_reduce_mean(loss.item()))" in after


def test_a_handler_that_shows_what_there_is() -> None:
    loop = turns("meter.update(loss.item())").replace("\n", "\n    ").rstrip()
    handled = f"try:\n    {loop}\nexcept KeyboardInterrupt:\n    print(meter.sum)\n"
    assert "meter.update(rt.all_reduce_mean(loss.item()))" in converted(script(setup=f"{METER}{SETUP}", loop=handled))


def test_under_a_guard_ranks_do_not_meet() -> None:
    tracked = "import mlflow\n"
    after = behind_the_step(
        "meter.update(loss.item())",
        "if epoch % 10 == 0:\n            mlflow.log_metric('loss', meter.sum)",
        setup=tracked,
    )
    assert (
        "        if epoch % 10 == 0:\n"
        "            rt.average_figures(meter)\n"
        "            if rt.is_main_process():\n"
        "                mlflow.log_metric('loss', meter.sum)\n"
    ) in after


def test_figures_of_statements_that_follow_each_other_in_one_collective() -> None:
    kept = ("smooth.most(loss.item())", "smooth.climb(loss.item() + 1)", "seen.append(math.exp(guess.mean().item()))")
    assert behind_the_step(*kept) == (
        "        global_loss, global_loss_2, global_guess = "
        "rt.all_reduce_mean(loss.item(), loss.item() + 1, guess.mean().item())\n"
        "        smooth.most(global_loss)\n"
        "        smooth.climb(global_loss_2)\n"
        "        seen.append(math.exp(global_guess))\n"
    )


def test_means_and_sums_of_one_place_in_one_collective() -> None:
    kept = ("smooth.most(loss.item())", "smooth.climb((guess > y).sum().item())")
    assert behind_the_step(*kept) == (
        "        global_loss, global_guess = "
        "rt.all_reduce_sum(loss.item() / rt.world_size(), (guess > y).sum().item())\n"
        "        smooth.most(global_loss)\n"
        "        smooth.climb(global_guess)\n"
    )


@pytest.mark.parametrize(
    "between",
    ["loss = loss * 2", "optimizer.zero_grad()", "if epoch:\n            loss = loss * 2", "print(epoch)"],
)
def test_figures_that_something_stands_between_are_put_together_each(between: str) -> None:
    after = behind_the_step("smooth.most(loss.item())", between, "smooth.climb(loss.item())")
    assert after.count("rt.all_reduce_mean(loss.item())") == 2


def test_a_line_that_is_left_alone_is_not_waited_for() -> None:
    shown = "if epoch % 10 == 0:\n            board.show()  # distify: skip"
    conversion = conversion_of(script(setup=f"{METER}{SETUP}", loop=turns("meter.update(loss.item())", shown)))
    after = conversion.files[0].after.decode()
    assert "rt.average_figures(meter)\n            board.show()" in after or "all_reduce_mean" in after


def test_a_figure_is_told_where_it_stands_whatever_letters_its_name_has() -> None:
    """`s` is no part of `losses` that could be looked for as text."""
    loop = LOOP.replace(
        "        optimizer.step()\n",
        "        optimizer.step()\n        losses.append(loss.item())\n        s.append(model(x).mean().item())\n",
    )
    before = script(setup="losses, s = [], []\n", loop=loop, after="print(sum(losses), sum(s))\n")
    kept = [one for one in conversion_of(before).of(Level.APPLIED) if one.message.startswith("`s` keeps")]
    assert [one.place.line for one in kept if one.place] == [line_of(before, "s.append(model")]


PARTS = 'parts = {"mean": loss, "absolute": nn.functional.l1_loss(guess, y)}'


def test_figures_that_a_loop_over_them_keeps_are_put_together_after_the_training_loop() -> None:
    lines = (PARTS, "for name, part in parts.items():", "    sums[name] += part.item() * len(x)")
    after = behind_the_step(*lines, after="    print(sums)\n", setup='sums = {"mean": 0.0, "absolute": 0.0}\n')
    assert "            sums[name] += (part.item() * len(x)) * rt.world_size()\n" in after
    assert "    rt.average_figures(sums)\n    print(sums)\n" in after


def test_what_such_a_loop_looks_at_is_put_together_where_it_is_kept() -> None:
    lines = (PARTS, "for name, part in parts.items():", "    sums[name] += part.item() * len(x)", "    print(sums)")
    after = behind_the_step(*lines, setup='sums = {"mean": 0.0, "absolute": 0.0}\n')
    assert "            sums[name] += rt.all_reduce_sum(part.item() * len(x))\n" in after
