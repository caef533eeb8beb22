"""What a difference between two runs is said to mean."""

from __future__ import annotations

import pytest
import torch
from distify_runtime.trace.hints import about_parting, about_steps
from distify_runtime.trace.traces import Trace


def run(*parameters: float, own_draws: tuple[str, ...] = (), inputs: int = 8) -> Trace:
    """One optimizer of two numbers that begins at one, and what they are after each step."""
    return Trace(
        steps=[(0, torch.tensor([1.0, one], dtype=torch.float64)) for one in parameters],
        beginnings=[torch.ones(2, dtype=torch.float64)],
        passes=[], saves=[], lines=[], files=[], world_size=1, training_inputs=inputs, group_left_open=False,
        own_draws=list(own_draws),
    )  # fmt: skip


@pytest.mark.parametrize("step", [1, 2])
def test_random_numbers_that_nothing_seeds_come_first(step: int) -> None:
    original = run(0.9, 0.8, own_draws=("albumentations",))
    other = torch.tensor([0.7, 0.9], dtype=torch.float64)
    ours = run(0.9, 0.8, inputs=4)
    ours.steps[step - 1] = (0, other)
    hint = about_parting(original, [ours, ours], step)
    assert hint.startswith("albumentations may draw random numbers of its own")
    assert "albumentations" not in about_parting(run(0.9, 0.8), [ours, ours], step)


def test_a_mistake_that_has_a_shape_is_that() -> None:
    """A step that is half the original's is no matter of chance."""
    hint = about_parting(run(0.8, own_draws=("albumentations",)), [run(0.9), run(0.9)], 1)
    assert hint.startswith("the step is 2 times too small")


def test_a_rank_that_ended_early_has_no_such_step() -> None:
    hint = about_parting(run(0.9, 0.8), [run(0.9, 0.7), run(0.9)], 2)
    assert hint == "ranks have unequal numbers of batches, or decide for themselves when to stop"


@pytest.mark.parametrize(
    ("steps", "hint"),
    [
        (4, "each rank kept the whole batch size; divide it by the 2 ranks"),
        (7, "an error that is caught, or a batch that is left out"),
        (9, "an error that is caught, or a batch that is left out"),
        (16, "the training loader is not dealt out: each rank goes through all of it"),
    ],
)
def test_another_number_of_steps(steps: int, hint: str) -> None:
    ours = run(*[0.9] * steps)
    assert about_steps(run(*[0.9] * 8), [ours, ours]).startswith(hint)
