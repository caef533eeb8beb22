"""Which printed lines, and which part of them, tell of an evaluation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from distify_runtime.trace.compare import Tolerance, compare
from distify_runtime.trace.traces import Save, Trace, lines_of


def run(*lines: str) -> Trace:
    return Trace(
        steps=[], beginnings=[], passes=[], saves=[], lines=list(lines), files=[], world_size=1, training_inputs=0,
        group_left_open=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Test loss 0.5", "Test loss 0.5"),
        ("best accuracy so far: 0.8", "best accuracy so far: 0.8"),
        ("epoch 1 train_loss 0.5 val_loss 0.4 acc 0.9", "val_loss 0.4 acc 0.9"),
        ("Valid: 0.4, Train: 0.5, Test: 0.6", "Valid: 0.4, Test: 0.6"),
        ("train loss 0.5, train accuracy 0.8, best 0.9", ""),
        ("training: interval 3, value 4, latest 5", ""),
        ("epoch 1 | loss 0.5 | acc_tr 0.6 | acc_va 0.7", "va 0.7"),
        ("va_loss 0.5 tr_loss 0.4", "va_loss 0.5 "),
        ("va_loss 0.5", "va_loss 0.5"),
        ("El modelo va bien: 0.5", ""),
        ("loss 0.5", ""),
    ],
)
def test_what_a_line_tells_of_an_evaluation(line: str, told: str) -> None:
    assert run(line).evaluation_lines == ([told] if told else [])


@pytest.mark.parametrize(("ours", "differs"), [("train 0.7 val 0.40", False), ("train 0.5 val 0.30", True)])
def test_a_figure_of_an_evaluation_beside_one_of_the_training(ours: str, differs: bool) -> None:
    """What is printed of the training may be one rank's, and the checklist says so."""
    checks = compare(run("train 0.5 val 0.40"), [run(ours), run()], Tolerance(1e-6, figures=1e-3))
    [figures] = [one for one in checks if one.name == "printed figures"]
    assert bool(figures.difference) is differs


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ("sum 982.1 of 2560", "sum 485.2 of 1280", "'sum 982.1 of 2560', the original 'sum 485.2 of 1280'"),
        ("loss 0.52", "loss 0.50", "'loss 0.52', the original 'loss 0.50'"),
        ("loss 0.5 in 3.1 s, 12.0 it/s", "loss 0.5 in 7.4 s, 4.0 it/s", ""),
        ("loss 0.5", "loss 0.5", ""),
        ("loss 0.30000000000000004", "loss 0.3", ""),
    ],
)
def test_other_numbers_in_lines_of_the_training_are_shown(ours: str, theirs: str, said: str) -> None:
    checks = compare(run("start", theirs), [run("start", ours), run()], Tolerance())
    [lines] = [one for one in checks if one.name == "one rank prints"]
    assert lines.difference is None
    more = f"; 1 with other numbers, unless those are times: {said}" if said else ""
    assert lines.found == f"2 lines of rank 0{more}"


def test_lines_are_told_without_their_colours() -> None:
    assert lines_of("\x1b[1mepoch\x1b[0m 1\n\x1b[38;5;9mloss\x1b[m 0.5\x1b[K") == ["epoch 1", "loss 0.5"]


@pytest.mark.parametrize(("imaginary", "differs"), [(0.5, False), (0.0, True)])
def test_complex_numbers_of_a_checkpoint_are_compared_as_a_whole(imaginary: float, differs: bool) -> None:
    saved = [Save("m.pt", {"w": torch.full((3,), complex(1.0, part))}) for part in (0.5, imaginary)]
    original, ours = (replace(run(), saves=[one]) for one in saved)
    [found] = [one for one in compare(original, [ours, run()], Tolerance(1e-6)) if one.name == "checkpoints"]
    assert bool(found.difference) is differs
