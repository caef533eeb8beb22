"""Whether a mean is larger than something is no mean: what is averaged is the figure, never its outcome."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Strategy

from tests.rules.scripts import LOOP, conversion_of, converted, script

LOSS = "        loss = nn.functional.mse_loss(model(x), y)\n"


def written(lines: str) -> str:
    turn = "".join(f"        {line}\n" for line in lines.splitlines())
    return converted(script(loop=LOOP.replace(LOSS, LOSS + turn)), options=Options())


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("if (loss > 3).item():\n    loss = loss * 2", "if (rt.all_reduce_mean(loss) > 3).item():"),
        ("if bool(loss > 3):\n    loss = loss * 2", "if bool(rt.all_reduce_mean(loss) > 3):"),
        ("if not (loss > 3).item():\n    loss = loss * 2", "if not (rt.all_reduce_mean(loss) > 3).item():"),
        ("if (loss > 3).cpu().item():\n    loss = loss * 2", "if (rt.all_reduce_mean(loss) > 3).cpu().item():"),
        ("large = (loss > 3).item()\nif large:\n    loss = loss * 2", "large = (rt.all_reduce_mean(loss) > 3).item()"),
        ("if torch.gt(loss, 3):\n    loss = loss * 2", "if torch.gt(rt.all_reduce_mean(loss), 3):"),
        ("if loss.gt(3):\n    loss = loss * 2", "if rt.all_reduce_mean(loss).gt(3):"),
        ("if loss > 3:\n    loss = loss * 2", "if rt.all_reduce_mean(loss) > 3:"),
        ("if loss.item() > 3:\n    loss = loss * 2", "if rt.all_reduce_mean(loss.item()) > 3:"),
    ],
)
def test_what_is_averaged_is_the_figure(lines: str, after: str) -> None:
    assert f"        {after}\n" in written(lines)


def test_a_loss_that_is_multiplied_by_an_outcome() -> None:
    lines = "loss = loss * (1 + (loss > 3).float())"
    turn = LOSS + f"        {lines}\n"
    conversion = conversion_of(script(loop=LOOP.replace(LOSS, turn)), options=Options())
    after = conversion.files[0].after.decode()
    assert conversion.strategy is Strategy.SHARED or "rt.gather_samples(" in after


@pytest.mark.parametrize("lines", ["hits = (model(x) > 0).float()", "large = y > 3"])
def test_outcomes_by_which_nothing_is_decided(lines: str) -> None:
    assert "all_reduce_mean" not in written(lines)


def test_an_outcome_that_is_printed_is_that_of_the_mean() -> None:
    assert "print((rt.all_reduce_mean(loss) > 3).item())" in written("print((loss > 3).item())")


@pytest.mark.parametrize("of", ["any", "all"])
def test_figures_that_are_compared_one_by_one(of: str) -> None:
    """The mean of each rank's verdict would be that of any rank."""
    loop = LOOP + f"    if {of}(loss.item() > bound for bound in (1.0, 2.0)):\n        break\n"
    after = f"    if {of}(rt.all_reduce_mean(loss.item()) > bound for bound in (1.0, 2.0)):\n"
    assert after in converted(script(loop=loop))
