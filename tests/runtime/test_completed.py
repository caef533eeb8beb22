"""What has been started side by side, taken in one order."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import distify_runtime as rt
import pytest
from ranks import RankFailed, on_ranks


def _slow_first(number: int) -> int:
    time.sleep(0.2 if number == 0 else 0)
    return number


def _taken(as_a_set: bool) -> list[int]:
    with ThreadPoolExecutor(4) as pool:
        futures: Any = [pool.submit(_slow_first, number) for number in range(4)]
        named = dict.fromkeys(futures)
        assert list(rt.in_order(named)) == futures
        return [one.result() for one in rt.in_order(set(futures) if as_a_set else futures)]


def test_each_rank_takes_them_as_they_were_started() -> None:
    assert on_ranks(_taken, False) == [[0, 1, 2, 3]] * 2


def test_a_set_has_no_order() -> None:
    with pytest.raises(RankFailed, match="a set of futures has another order on each rank"):
        on_ranks(_taken, True)


def test_alone_it_is_what_it_was() -> None:
    assert sorted(_taken(True)) == [0, 1, 2, 3]


def test_time_that_is_over_errors_and_what_is_cancelled() -> None:
    waits, fails, left = Future[int](), Future[int](), Future[int]()
    fails.set_exception(ValueError("no"))
    left.cancel()
    left.set_running_or_notify_cancel()
    assert list(rt.in_order([fails, left])) == [fails, left]
    with pytest.raises(TimeoutError):
        list(rt.in_order([fails, waits], timeout=0.01))
