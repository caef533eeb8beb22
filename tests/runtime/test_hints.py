"""What a difference between two runs is said to mean."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from distify_runtime.trace.hints import about_parting, about_steps, about_work
from distify_runtime.trace.traces import Pass, Trace


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


AUGMENTS = "if random.random() < 0.5:"


def drawing(counts: list[int], place: str = "train.py:9") -> list[tuple[int, str, str, int]]:
    return [(step, place, AUGMENTS, count) for step, count in enumerate(counts, 1)]


def parting(original: list[int], *ranks: list[int]) -> str:
    """The hint about a first step that is another one, where a line draws so many single numbers in each step."""
    theirs = replace(run(0.9, 0.8), singles=drawing(original))
    ours = [replace(run(0.7, 0.6, inputs=4), singles=drawing(counts, "train_dist.py:12")) for counts in ranks]
    other = torch.tensor([0.7, 0.9], dtype=torch.float64)
    for one in ours:
        one.steps[0] = (0, other)
    return about_parting(theirs, ours, 1)


@pytest.mark.parametrize(("original", "ranks"), [([8], ([4], [4])), ([8, 8], ([4, 4], [4, 4])), ([9], ([5], [4]))])
def test_numbers_that_are_drawn_for_each_sample_cannot_be_compared(original: list[int], ranks: list[list[int]]) -> None:
    hint = parting(original, *ranks)
    assert hint.startswith(f"a number is drawn for each sample at train.py:9 (`{AUGMENTS}`)")
    assert "cannot be compared" in hint


@pytest.mark.parametrize(
    ("original", "ranks"),
    [
        ([1], ([1], [1])),  # one for the batch
        ([8], ([8], [8])),  # all ranks have the whole batch
        ([8], ([8], [0])),  # one rank draws for all
        ([0, 8], ([0, 4], [0, 4])),  # later than the runs part
        ([], ([], [])),
    ],
)
def test_numbers_that_are_not_shared_out_are_no_reason(original: list[int], ranks: list[list[int]]) -> None:
    assert parting(original, *ranks).startswith("other samples")


PAIRS = "perm = torch.randperm(len(x))"


def paired(original: int, *ranks: int, step: int = 1) -> str:
    """The hint about a first step that is another one, where a line draws an order of so many numbers."""
    theirs = replace(run(0.9, 0.8), orders=[(step, "train.py:9", PAIRS, original)] if original else [])
    other = torch.tensor([0.7, 0.9], dtype=torch.float64)
    ours = [replace(run(0.7, 0.6, inputs=4), orders=[(step, "train_dist.py:12", PAIRS, count)]) for count in ranks]
    for one in ours:
        one.steps[0] = (0, other)
    return about_parting(theirs, ours, 1)


def test_samples_that_are_paired_within_shares_are_named() -> None:
    hint = paired(16, 8, 8)
    where = f"train.py:9 (`{PAIRS}`)"
    assert hint.startswith(f"samples are paired at random within a rank's share of the batch, at {where}")


@pytest.mark.parametrize("counts", [(16, 16, 16), (16, 8, 0), (0, 8, 8)])
def test_orders_that_are_no_shares_are_no_reason(counts: tuple[int, int, int]) -> None:
    assert paired(*counts).startswith("other samples")
    assert paired(16, 8, 8, step=2).startswith("other samples")  # later than the runs part


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


#: What holds of sharded data alone.
OF_SHARDED_DATA = ("DistributedSampler", "batch size", "set_epoch", "dealt out", "DistributedDataParallel", "own share")


def hints(shares: bool) -> list[str]:
    """Of a step that differs, of ranks that part, of numbers of steps and of work, of ranks given whole batches."""
    theirs = run(0.9, 0.8, 0.7, 0.6)
    ours, other, longer = (
        replace(run(*steps), shares_forwards=shares) for steps in ((0.7, 0.8), (0.6, 0.8), (0.5,) * 9)
    )
    return [
        about_parting(theirs, [ours, ours], 1), about_parting(theirs, [ours, other], 1),
        about_parting(theirs, [ours, ours], 2), about_steps(theirs, [ours, ours]),
        about_steps(theirs, [longer, longer]), about_work([ours, ours]),
    ]  # fmt: skip


def test_shared_forward_passes_are_not_told_what_holds_of_sharded_data() -> None:
    assert not any(word in hint for hint in hints(shares=True) for word in OF_SHARDED_DATA)
    assert sum(any(word in hint for word in OF_SHARDED_DATA) for hint in hints(shares=False)) >= 4


@pytest.mark.parametrize(("shuffles", "told"), [(True, True), (False, False)])
def test_an_order_that_comes_again_is_no_reason_where_nothing_is_shuffled(shuffles: bool, told: bool) -> None:
    passes = [Pass(0, 0, 16, first, shuffles=shuffles) for first in (0, 1)]
    ours = replace(run(0.9, 0.7, inputs=4), passes=passes)
    assert ("set_epoch" in about_parting(run(0.9, 0.8), [ours, ours], 2)) is told
