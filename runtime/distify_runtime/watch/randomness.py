"""Where a model draws random numbers in training, ranks draw apart; where all compute the same, they draw alike."""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from distify_runtime.watch.verdict import of_ranks
from distify_runtime.watch.watching import Steps, Watching


class Streams(enum.Enum):
    """How torch's random numbers of the ranks are to be, outside of shared forward passes."""

    UNKNOWN = "unknown"
    ALIKE = "alike"
    APART = "apart"


_watching: Watching | None = None
_streams = Streams.UNKNOWN
_drew = False  # in a pass that was looked at


def watch(watching: Watching) -> None:
    global _watching
    _watching = watching


def are(streams: Streams) -> None:
    """How they are to be from here on."""
    global _streams
    _streams = streams


def before_pass() -> Callable[[Exception | None], None]:
    if _watching is None or _streams is not Streams.APART or not _watching.next_is_due():
        return _nothing
    before = _position()

    def behind(error: Exception | None) -> None:
        global _drew
        _drew = _drew or _position() != before

    return behind


def _nothing(error: Exception | None) -> None:
    pass


def look(watching: Watching, optimizer: Optimizer, steps: Steps) -> None:
    global _drew
    drew, _drew = _drew, False
    when = f"step {steps.taken} of {type(optimizer).__name__}"
    topic = f"randomness/{steps.number}/{steps.taken}"
    watching.exchange(topic, [_streams.value, drew, _position()], lambda everyone: _judged(everyone, when))


def _judged(everyone: list[Any], when: str) -> str:
    positions = [position for *_, position in everyone]
    wanted = {streams for streams, *_ in everyone}
    if wanted == {Streams.ALIKE.value} and len(set(positions)) > 1:
        others = [rank for rank, one in enumerate(positions) if one != positions[0]]
        return (
            f"{of_ranks(others)} and rank 0 do not draw the same random numbers any more after {when}, where all are "
            "to compute the same: something has drawn, or has set a seed, on some ranks only"
        )
    drew = all(drew for _, drew, _ in everyone)
    if wanted == {Streams.APART.value} and drew and len(set(positions)) < len(positions):
        alike = [rank for rank, one in enumerate(positions) if positions.count(one) > 1]
        return (
            f"{of_ranks(alike)} draw the same random numbers after {when}: dropout and noise of different samples are "
            "the same. Something has set one seed on them after rt.seed_ranks_apart()"
        )
    return ""


def _position() -> int:
    """Where torch's streams are: the CPU's, and the GPU's by what the CPU knows of it."""
    found = zlib.crc32(bytes(torch.get_rng_state().tolist()))
    if torch.cuda.is_available():
        found = zlib.crc32(bytes(torch.cuda.get_rng_state().tolist()), found)
    return found
