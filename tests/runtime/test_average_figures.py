"""What meters hold becomes the mean over the ranks, in one collective, and keeps its type."""

from __future__ import annotations

from collections import defaultdict, deque, namedtuple
from typing import Any

import distify_runtime as rt
import numpy as np
import torch
from distify_runtime import communicator
from ranks import on_ranks

Point = namedtuple("Point", "step loss")


class Meter:
    def __init__(self, value: float) -> None:
        self.name, self.seen, self.best, self.on = "loss", 0, None, True
        self.sum, self.count = value, 2 * rt.world_size()


class Slotted:
    __slots__ = ("left", "value")

    def __init__(self, value: float) -> None:
        self.value = value


def _averaged() -> Any:
    rank = rt.rank()
    meter, slotted = Meter(0.5 + rank), Slotted(3.0 * rank)
    table: Any = defaultdict(list, {"a": [1.0 * rank, (rank, "x", [2.0 * rank])], "meter": meter})
    recent = deque([torch.tensor([1.0, 2.0]) * rank, np.float32(rank), np.arange(2) * 2 * rank], maxlen=5)
    points = [Point(7, 2.0 * rank), 2 * rank, rank, 2**40]
    tensor = recent[0]
    before = communicator.last_met()
    rt.average_figures(meter, table, recent, points, slotted, meter)
    met = [int(text.rpartition(" ")[2].rstrip(")") or 0) if text else 0 for text in (before, communicator.last_met())]
    return (
        vars(meter),
        table["a"],
        list(recent),
        points,
        slotted.value,
        met[1] - met[0],
        tensor,
        table["meter"] is meter,
    )


def test_numbers_are_averaged_wherever_they_are_held() -> None:
    for rank, (meter, listed, recent, points, slotted, met, tensor, same) in enumerate(on_ranks(_averaged)):
        assert meter == {"name": "loss", "seen": 0, "best": None, "on": True, "sum": 1.0, "count": 4}
        assert [type(meter[name]) for name in ("seen", "on", "sum", "count")] == [int, bool, float, int]
        assert listed == [0.5, (0.5, "x", [1.0])]
        assert recent[0].tolist() == [0.5, 1.0]
        assert recent[0].dtype == torch.float32
        assert (type(recent[1]), recent[1]) == (np.float32, 0.5)
        assert (recent[2].dtype, recent[2].tolist()) == (np.int64, [0, 1])
        assert points == [Point(7, 1.0), 1, 0.5, 2**40]
        assert [type(one) for one in points] == [Point, int, float, int]
        assert slotted == 1.5
        assert met == 1
        assert tensor.tolist() == [1.0 * rank, 2.0 * rank]  # who else holds it keeps it
        assert same


def _again() -> Any:
    """A meter goes on from what all ranks had."""
    meter = Meter(1.0 + rt.rank())
    rt.average_figures(meter)
    rt.average_figures(meter)
    meter.sum += 10.0 * rt.rank()
    meter.count += 2 * rt.world_size()
    rt.average_figures(meter)
    return meter.sum, meter.count


def test_what_is_kept_after_that_is_added() -> None:
    assert on_ranks(_again) == [(6.5, 8), (6.5, 8)]


def test_a_world_of_one_keeps_what_it_has() -> None:
    meter = Meter(0.5)
    rt.average_figures(meter, [], {})
    assert meter.sum == 0.5
