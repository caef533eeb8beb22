"""Decisions on data that each rank has whole: the same on all ranks, unless chance goes into them."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import LOOP, MODEL, conversion_of, script

HELD_OUT = """\
    with torch.no_grad():
        held_out = nn.functional.mse_loss(model(x_test), y_test).item()
    if held_out < best:
        best = held_out
    else:
        break
    print(held_out)
"""


def held_out(model: str = MODEL, data: str = "x_test, y_test = torch.randn(9, 4), torch.randn(9, 1)\n") -> str:
    """A decision on data that each rank has whole."""
    return script(setup=data, model=f"best = 1e9\n{model}", loop=LOOP + HELD_OUT)


def test_what_is_drawn_before_training_is_the_same_on_all_ranks() -> None:
    conversion = conversion_of(held_out(), options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert "from_main_process" not in conversion.files[0].after.decode()


def test_what_a_generator_of_its_own_drew_may_differ() -> None:
    data = "g = torch.Generator()\ng.seed()\nx_test, y_test = torch.randn(9, 4, generator=g), torch.zeros(9, 1)\n"
    assert conversion_of(held_out(data=data), options=Options()).strategy is Strategy.SHARED


@pytest.mark.parametrize("setup", ["x_test = torch.randn(9, 4)", "x_test = x_test + torch.randn(9, 4)"])
def test_what_is_drawn_between_passes_is_not(setup: str) -> None:
    before = held_out().replace("    with torch.no_grad", f"    {setup}\n    with torch.no_grad")
    assert conversion_of(before, options=Options()).strategy is Strategy.SHARED


FROM_A_FILE = "x_test, y_test = torch.load('x.pt'), torch.load('y.pt')\n"
DROPPING = "model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 1))\n"


@pytest.mark.parametrize(
    ("model", "evaluates", "lines"),
    [
        (DROPPING, "", ["if rt.from_main_process(held_out < best):"]),
        (DROPPING, "model.eval()", []),
        (DROPPING, "model.train(False)", []),
        (MODEL, "", []),
    ],
)
def test_a_model_that_never_evaluates_drops_otherwise_on_each_rank(
    model: str, evaluates: str, lines: list[str]
) -> None:
    """Also where nobody meant it to, and the ranks would end training apart."""
    before = held_out(model, FROM_A_FILE)
    before = before.replace("    with torch.no_grad", f"    {evaluates or 'pass'}\n    with torch.no_grad")
    conversion = conversion_of(before, options=Options())
    assert conversion.strategy is Strategy.SHARDED
    after = conversion.files[0].after.decode().splitlines()
    assert [line.strip() for line in after if "from_main_process" in line] == lines
