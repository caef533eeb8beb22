"""A process's time, cut into parts: each moment belongs to the innermost part that has begun."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch

#: What a step is made of: the wait for a batch, all that computes (with the optimizer), the backward pass, and what
#: ranks do together: gradients, figures that are reduced, statistics of BatchNorm, what is gathered, and all else.
LOADING, COMPUTING, BACKWARD = "loading", "computing", "backward"
GRADIENTS, FIGURES, BATCHNORM, GATHERING, OTHER = "gradients", "figures", "batchnorm", "gathering", "other"
SYNCHRONISING = (GRADIENTS, FIGURES, BATCHNORM, GATHERING, OTHER)
#: Beside steps.
EVALUATION, CHECKPOINTS = "evaluation", "checkpoints"
APART = (EVALUATION, CHECKPOINTS)
#: What stands for other ranks and takes none of their time; no part of anything.
STAND_IN = "stand-in"
#: For processes that are timed at once, and have ended the step.
WAITING = "waiting"


@dataclass(frozen=True)
class Segment:
    """From `begin` to `end`, in seconds of `perf_counter`."""

    part: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass
class Clock:
    """Of one process. What threads of the script do beside its training is not timed."""

    segments: list[Segment] = field(default_factory=list)
    _parts: list[str] = field(default_factory=lambda: [COMPUTING])
    _since: float = field(default_factory=perf_counter)
    _main: int = field(default_factory=threading.get_ident)

    @property
    def part(self) -> str:
        return self._parts[-1]

    def is_within(self, part: str) -> bool:
        return part in self._parts

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        if not self._is_mine():
            yield
            return
        self.cut()
        self._parts.append(part)
        try:
            yield
        finally:
            self.cut()
            self._parts.pop()

    def timed(self, part: str) -> Callable[..., object]:
        """For `wrap`: calls of a function are this part."""

        def around(original: Callable[..., object], *args: object, **kwargs: object) -> object:
            with self.of(part):
                return original(*args, **kwargs)

        return around

    def cut(self) -> float:
        """Ends a segment now. A GPU is waited for: else its work would count where somebody waits for it later."""
        cuda: Any = torch.cuda  # untyped in part
        if cuda.is_available() and cuda.is_initialized():
            cuda.synchronize()
        now = perf_counter()
        self.segments.append(Segment(self.part, self._since, now))
        self._since = now
        return now

    def move(self, seconds: float, part: str) -> None:
        """The last seconds of the last segment were another part."""
        last = self.segments.pop()
        middle = max(last.begin, last.end - seconds)
        self.segments += [Segment(last.part, last.begin, middle), Segment(part, middle, last.end)]

    def _is_mine(self) -> bool:
        """The thread that trains, or on GPUs the one of torch's that does its backward pass."""
        if threading.get_ident() == self._main:
            return True
        return self.is_within(BACKWARD) and isinstance(threading.current_thread(), threading._DummyThread)
