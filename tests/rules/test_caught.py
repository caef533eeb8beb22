"""Errors that the script raises by a figure of training, and goes on behind."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import LOOP, OPTIMIZER, conversion_of, indented, script

RAISING = LOOP.replace(
    "        optimizer.zero",
    "        if loss.item() > 50:\n            raise ValueError('diverged')\n        optimizer.zero",
)
ALIKE = b"if rt.all_reduce_mean(loss.item()) > 50:\n"


def tried(handler: str) -> str:
    return script(loop=f"try:\n{indented(RAISING)}{handler}")


@pytest.mark.parametrize(
    "handler",
    ["except ValueError:\n    print('over')\n", "except (ValueError, OSError) as error:\n    print(error)\n",
     "except:\n    pass\n"],
)  # fmt: skip
def test_what_is_caught_is_decided_by_all(handler: str) -> None:
    """One rank would go on alone, and the others would wait for it."""
    conversion = conversion_of(tried(handler), options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert ALIKE in conversion.files[0].after


@pytest.mark.parametrize(
    "before",
    [
        script(loop=RAISING),
        tried("except KeyboardInterrupt:\n    print('stopped')\n"),
        tried("except ValueError:\n    print('over')\n    raise\n"),
        tried("finally:\n    print('over')\n"),
    ],
)
def test_what_ends_the_run_is_a_check_of_each_rank(before: str) -> None:
    conversion = conversion_of(before, options=Options())
    assert conversion.strategy is Strategy.SHARDED
    assert ALIKE not in conversion.files[0].after
    assert any("it may end the run" in one.message for one in conversion.of(Level.ADVICE))


def in_trials(training: str) -> str:
    trial = f"model = nn.Linear(4, 1)\n{OPTIMIZER}{training}"
    return script(model="", optimizer="", loop=f"for trial in range(2):\n{indented(trial)}")


def test_another_trial_behind_an_error_is_drawn_alike() -> None:
    """`rt.seed_ranks_alike()` behind the loop would be passed over."""
    caught = f"try:\n{indented(RAISING)}except ValueError:\n    print('over')\n"
    assert conversion_of(in_trials(caught), options=Options()).strategy is Strategy.SHARED
    assert conversion_of(in_trials(LOOP), options=Options()).strategy is Strategy.SHARDED


@pytest.mark.parametrize(
    ("given", "strategy"),
    [
        ("f'loss {loss.item():.3f}'", Strategy.SHARED),
        ("loss.item()", Strategy.SHARED),
        ("f'epoch {epoch}'", Strategy.SHARDED),
    ],
)
def test_a_figure_that_an_error_hands_on_is_one_ranks(given: str, strategy: Strategy) -> None:
    raising = RAISING.replace("'diverged'", given)
    caught = f"try:\n{indented(raising)}except ValueError as error:\n    print(error)\n"
    assert conversion_of(script(loop=caught), options=Options()).strategy is strategy
    ends = conversion_of(script(loop=raising), options=Options())
    assert ends.strategy is Strategy.SHARDED
