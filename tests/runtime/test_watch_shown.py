"""A line that would say something else on another rank is told of; what is alike, or differs by right, is not."""

from __future__ import annotations

import pytest
from ranks import run_script

TRAIN = """
import datetime, logging, os, sys, time
import torch
import distify_runtime as rt
from distify_runtime import rank_zero_print as print
from torch import nn

rt.init_process_group()
rt.rank_zero_logging()
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
figure = 0.25 + rt.rank()
start = time.perf_counter()


def report(text):
    print("report:", text)


class Meter:
    shown = 0

    def __str__(self):
        self.shown += 1
        return f"shown {self.shown} times"


class Timer:
    def __init__(self):
        self.since = time.time()

    def taken(self):
        return time.time() - self.since


meter, timer = Meter(), Timer()
for step in range(STEPS):
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    LINES
"""
SHOWS = "rank 0 shows {}, rank 1 would show {}: a figure of its own samples is not that of all; average it over ranks "
SHOWS += "(rt.all_reduce_mean), or convert with --strategy shared\n"


def _told(lines: str, steps: int = 1) -> tuple[str, str]:
    """What is shown, and what is said of it."""
    ended = run_script(TRAIN.replace("LINES", lines.replace("\n", "\n    ")).replace("STEPS", str(steps)))
    assert [one.code for one in ended] == [0, 0]
    assert (ended[1].out, ended[1].err) == ("", "")
    return ended[0].out, ended[0].err


@pytest.mark.parametrize("show", ["print(figure)", "logging.info(figure)", "logging.info('%s', figure)"])
def test_a_figure_of_ones_own(show: str) -> None:
    out, said = _told(show)
    assert out == "0.25\n"
    place, said = said.split(": ", 2)[1:]
    assert place.endswith(":41")
    assert said == SHOWS.format("'0.25'", "'1.25'")


def test_it_is_said_once_for_a_place() -> None:
    out, said = _told("print('loss', figure)", steps=12)
    assert out == "loss 0.25\n" * 12
    assert said.count("distify: ") == 1


def test_three_places_are_told_of() -> None:
    _, said = _told("\n".join(f"print('{name}', figure)" for name in "abcde"))
    assert said.count("would show") == 3
    assert "'c 0.25'" in said
    assert "'d 0.25'" not in said


def test_what_a_function_is_given_to_show() -> None:
    out, said = _told("report(figure)")
    assert out == "report: 0.25\n"
    assert "'report: 0.25', rank 1 would show 'report: 1.25'" in said


def test_words_differ_too() -> None:
    assert "'better', rank 1 would show 'worse'" in _told("print('better' if figure < 1 else 'worse')")[1]


def test_of_a_long_text_the_part_that_differs_is_told() -> None:
    assert "'...and so on and so on and so on 0.25', rank 1" in _told("print('and so on ' * 20 + str(figure))")[1]


@pytest.mark.parametrize(
    "show",
    [
        "print(step, net.weight.tolist())",
        "print(f'{rt.all_reduce_mean(figure):.4f}')",
        "print(f'{1 / 3 + 1e-5 * rt.rank():.4f}')",  # rounded the other way
        "print(object(), net.forward)",
        "print(f'cpu:{rt.rank()}', torch.device('cuda', rt.rank()))",
        "if rt.is_main_process():\n    print(figure)",
        "logging.debug(figure)",
        "logging.info('%d %d', figure)",
    ],
)
def test_what_is_alike(show: str) -> None:
    assert "would show" not in _told(show)[1]


@pytest.mark.parametrize(
    "show",
    [
        "print(time.perf_counter() - start)",
        "took = time.time() - start\nprint(f'{figure}, {took}')",
        "print(f'{figure} {timer.taken()}')",
        "print(datetime.datetime.now(), figure)",
        "took = f'{time.time() - start} s'\nreport(took)",
        "print(os.getpid())",
        "print(len(os.listdir('.')) + rt.rank())",
    ],
)
def test_what_tells_of_the_process_differs_by_right(show: str) -> None:
    assert _told(show)[1] == ""


def test_what_an_object_says_of_itself_is_asked_once_on_each_rank() -> None:
    assert _told("print(meter)", steps=4) == ("".join(f"shown {count} times\n" for count in (1, 2, 3, 4)), "")


def test_a_run_that_is_not_watched_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTIFY_WATCH", "off")
    assert _told("print(figure)") == ("0.25\n", "")
