"""Where a model draws random numbers in training, ranks draw apart; where all compute the same, they draw alike."""

from __future__ import annotations

import enum
import pickle
import random
import sys
import zlib
from typing import Any

import torch
from torch.optim import Optimizer

from distify_runtime import accelerators
from distify_runtime.memory import memory_of
from distify_runtime.watch.verdict import of_ranks, say_once
from distify_runtime.watch.watching import Steps, Watching


class Streams(enum.Enum):
    """How torch's random numbers of the ranks are to be, outside of shared forward passes."""

    UNKNOWN = "unknown"
    ALIKE = "alike"
    APART = "apart"


_watching: Watching | None = None
_streams = Streams.UNKNOWN
#: Where torch's, Python's and NumPy's streams were before a pass that was looked at; None where it has not drawn.
_drawn_from: list[int | None] = []
_before: list[int] = []
_NAMES = ("", "Python's random", "NumPy")


def watch(watching: Watching) -> None:
    global _watching
    _watching = watching


def are(streams: Streams) -> None:
    """How they are to be from here on."""
    global _streams
    _streams = streams


def before_pass(given: tuple[Any, ...]) -> None:
    global _before
    # without gradients it is an evaluation, in which all may draw alike by right
    looked_at = _watching is not None and torch.is_grad_enabled() and _watching.next_is_due()
    _before = positions() if looked_at else []


def behind_pass(error: Exception | None, outputs: Any) -> None:
    global _drawn_from
    if _before and (behind := positions()) != _before:
        _drawn_from = [one if now != one else None for one, now in zip(_before, behind, strict=True)]


def look(watching: Watching, optimizer: Optimizer, steps: Steps) -> None:
    global _drawn_from
    drawn_from, _drawn_from = _drawn_from, []
    when = f"step {steps.taken} of {type(optimizer).__name__}"

    def judge(everyone: list[Any]) -> str:
        return _judged(everyone, when)

    topic = f"randomness/{steps.number}/{steps.taken}"
    watching.exchange(topic, [_streams.value, drawn_from, torchs_position()], judge)


def _judged(everyone: list[Any], when: str) -> str:
    wanted = {streams for streams, *_ in everyone}
    positions = [position for *_, position in everyone]
    if wanted == {Streams.ALIKE.value} and len(set(positions)) > 1:
        others = [rank for rank, one in enumerate(positions) if one != positions[0]]
        return (
            f"{of_ranks(others)} and rank 0 do not draw the same random numbers any more after {when}, where all are "
            "to compute the same: something has drawn, or has set a seed, on some ranks only"
        )
    if wanted == {Streams.ALIKE.value}:
        return ""
    for index, name in enumerate(_NAMES):
        drawn_from = [one[index] if one else None for _, one, _ in everyone]
        alike = [rank for rank, one in enumerate(drawn_from) if one is not None and drawn_from.count(one) > 1]
        if not alike:
            continue
        said = (
            f"{of_ranks(alike)} draw the same random numbers{f' of {name}' if name else ''} in the forward pass before "
            f"{when}: dropout and noise of different samples are the same"
        )
        if wanted != {Streams.APART.value}:
            if not name:
                say_once("randomness", f"{said}, where rt.seed_ranks_apart() does not stand before the training")
            continue
        said += ". Something has set one seed on them after rt.seed_ranks_apart()"
        if not name:
            return said
        say_once(name, f"{said}, unless it is meant to choose the same on all ranks")  # a layer to leave out, say
    return ""


def positions() -> list[int]:
    """Where torch's, Python's and NumPy's streams are."""
    numpy = sys.modules.get("numpy")
    others = [random.getstate(), numpy.random.get_state()[1:3] if numpy else None]
    return [torchs_position(), *map(_digest, others)]


def _digest(state: object) -> int:
    return zlib.crc32(pickle.dumps(state))


def torchs_position() -> int:
    """Where torch's streams are: the CPU's, and the GPU's by what the CPU knows of it.

    By all bytes in their places: of each number that is drawn, one counter goes up and another one down.
    """
    states = [torch.get_rng_state(), accelerators.random_state()]
    return zlib.crc32(b"".join(bytes(memory_of(one)) for one in states if one is not None))
