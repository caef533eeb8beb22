"""Samples that ranks read more often than the original are told of, unless a library leaves them out of the figures."""

from __future__ import annotations

import torch
from distify_runtime.trace.reading import first_difference


def pass_of(*samples: int, trains: bool = False, cut: bool = False) -> tuple[bool, int, torch.Tensor, bool]:
    return trains, 5, torch.tensor(samples), cut


ORIGINAL = [pass_of(0, 1, 2, 3, 4)]


def test_a_sampler_that_fills_up_shares_of_an_evaluation_is_told() -> None:
    told = first_difference(ORIGINAL, [[pass_of(0, 2, 4)], [pass_of(1, 3, 0)]])
    assert told is not None
    assert told[0] == "pass 1 over a loader (evaluation): all ranks together read sample 0 twice, the original once"


def test_not_where_a_library_cuts_it_off_again_on_all_ranks() -> None:
    ranks = [[pass_of(0, 2, 4, cut=True)], [pass_of(1, 3, 0, cut=True)]]
    assert first_difference(ORIGINAL, ranks) is None
    assert first_difference(ORIGINAL, [ranks[0], [pass_of(1, 3, 0)]]) is not None


def test_what_is_left_out_is_told_all_the_same() -> None:
    told = first_difference(ORIGINAL, [[pass_of(0, 2, cut=True)], [pass_of(1, 3, cut=True)]])
    assert told is not None
    assert (
        told[0] == "pass 1 over a loader (evaluation): all ranks together read sample 4 not at all, the original once"
    )
