"""How a process's time is cut into parts."""

from __future__ import annotations

import threading
from itertools import pairwise

from distify_runtime.bench.clock import BACKWARD, BATCHNORM, GRADIENTS, LOADING, Clock
from distify_runtime.bench.passes import Passes


class Iterator:
    """Can be referred to weakly, as a loader's."""


def test_each_moment_belongs_to_the_innermost_part() -> None:
    clock = Clock()
    with clock.of(BACKWARD), clock.of(BATCHNORM):
        assert clock.part == BATCHNORM
        assert clock.is_within(BACKWARD)
    with clock.of(LOADING):
        pass
    clock.cut()
    parts = [segment.part for segment in clock.segments]
    assert parts == ["computing", BACKWARD, BATCHNORM, BACKWARD, "computing", LOADING, "computing"]
    assert all(one.end == after.begin for one, after in pairwise(clock.segments))


def test_a_part_ends_where_an_error_is_raised() -> None:
    clock = Clock()
    try:
        with clock.of(LOADING):
            raise StopIteration
    except StopIteration:
        pass
    assert clock.part == "computing"


def test_the_end_of_a_backward_pass_was_waiting() -> None:
    clock = Clock()
    with clock.of(BACKWARD):
        pass
    whole = clock.segments[-1]
    clock.move(whole.seconds / 2, GRADIENTS)
    *_, computed, waited = clock.segments
    assert (computed.part, waited.part) == (BACKWARD, GRADIENTS)
    assert (computed.begin, computed.end, waited.end) == (whole.begin, waited.begin, whole.end)
    clock.move(1000.0, GRADIENTS)  # more than there was
    assert clock.segments[-2].seconds == 0


def test_threads_of_the_script_are_not_timed() -> None:
    clock = Clock()
    seen: list[str] = []

    def load() -> None:
        with clock.of(LOADING):
            seen.append(clock.part)

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    assert seen == ["computing"]
    assert not clock.segments


def test_a_pass_trains_if_a_backward_pass_comes_between_its_batches() -> None:
    passes, training, other, evaluation = Passes(), Iterator(), Iterator(), Iterator()
    for _ in range(2):  # two loaders side by side, as zip() asks them
        passes.asked(training)
        passes.given(training, None)
        passes.asked(other)
        passes.given(other, None)
        passes.backwards += 1
    for _ in range(2):
        passes.asked(evaluation)
        passes.given(evaluation, None)
    passes.asked(evaluation)
    passes.over(evaluation)
    passes.asked(training)
    passes.asked(other)
    assert [one.trains for one in passes.known] == [True, True, False]
    evaluated = passes.known[2]
    assert passes.evaluates((evaluated.begin + evaluated.end) / 2)
    assert not passes.evaluates(passes.known[0].begin)
