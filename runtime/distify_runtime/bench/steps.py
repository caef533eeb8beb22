"""The steps of one process: when each has ended, and what it was made of."""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

import distify_runtime
from distify_runtime import communicator, environment
from distify_runtime.bench.alone import Message, Messages
from distify_runtime.bench.clock import CHECKPOINTS, EVALUATION, STAND_IN, Clock
from distify_runtime.bench.parts import watch_parts
from distify_runtime.bench.passes import Passes
from distify_runtime.patching import wrap
from distify_runtime.shared import models
from distify_runtime.shared.region import is_comparing

#: Optimizers that step less often than this part of the most frequent one are no part of each step.
_SELDOM = 0.1


class Steps:
    """`wanted` steps are timed, after `warm_up` others. `out`: where they are written."""

    def __init__(self, out: Path, warm_up: int, wanted: int) -> None:
        self.clock, self.passes = Clock(), Passes()
        self.messages = Messages(self.clock)
        self.warm_up, self.wanted = max(1, warm_up), wanted
        self.after_each: list[Callable[[], object]] = []
        self._out = out
        self._optimizers: list[Optimizer] = []  # kept, so that identities are not used twice
        self._ends: list[list[float]] = []  # of the steps of each
        self._is_over = self._joined = self._shares = False
        self._progress = out.with_suffix(".steps").open("wb", buffering=0)

    def watch(self) -> None:
        watch_parts(self.clock, self.passes)
        wrap(models, "data_parallel", self._data_parallel)
        vars(distify_runtime).pop("data_parallel", None)  # it is asked for anew
        register_optimizer_step_post_hook(self._stepped)

    def _data_parallel(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        self._shares = True
        return original(*args, **kwargs)

    def _stepped(self, optimizer: Optimizer, *_: Any) -> None:
        if is_comparing():
            return
        if self._is_over:  # the script has caught its end
            self.write()
            os._exit(0)
        self._joined |= communicator.is_initialized()
        mine = self._ends_of(optimizer)
        mine.append(self.clock.cut())
        lead = self._lead()
        if mine is not lead:
            return
        self._progress.write(b".")
        for each in self.after_each:
            each()
        if len(lead) >= self.warm_up + self.wanted:
            self._is_over = True
            raise SystemExit(0)

    def _ends_of(self, optimizer: Optimizer) -> list[float]:
        for known, ends in zip(self._optimizers, self._ends, strict=True):
            if known is optimizer:
                return ends
        self._optimizers.append(optimizer)
        self._ends.append([])
        return self._ends[-1]

    def _lead(self) -> list[float]:
        """Of the optimizer whose steps are the steps: of several that take turns, the one that has the fewest."""
        most = max(map(len, self._ends), default=0)
        return min((ends for ends in self._ends if len(ends) >= _SELDOM * most), key=len, default=[])

    def write(self) -> None:
        ends = self._lead()[: self.warm_up + self.wanted]
        fields = {
            "world_size": environment.world_size(),
            "device": "cuda" if torch.cuda.is_available() else "cpu",
            "threads": torch.get_num_threads(),
            "joined": self._joined,  # other ranks, or a group of one
            "shares": self._shares,  # forward passes alone
            "taken": len(ends),
            "steps": self._parts_of_steps(ends),
            "messages": [[tuple(vars(one).values())[1:] for one in sent] for sent in self._messages_of_steps(ends)],
            "bytes": sum(one.nbytes for optimizer in self._optimizers for one in _parameters(optimizer)),
            "samples": self.passes.samples,
        }
        self._out.write_text(json.dumps(fields), encoding="utf-8")

    def _messages_of_steps(self, ends: list[float]) -> list[list[Message]]:
        found: list[list[Message]] = [[] for _ in ends]
        for one in self.messages.sent:
            at = bisect_left(ends, one.time)
            if at < len(ends) and not self.passes.evaluates(one.time):
                found[at].append(one)
        return found[self.warm_up :]

    def _parts_of_steps(self, ends: list[float]) -> list[dict[str, float]]:
        """Of each step that counts, the seconds that its parts took; what is apart from steps among them."""
        found: list[dict[str, float]] = [defaultdict(float) for _ in ends]
        for segment in self.clock.segments:
            at = bisect_left(ends, segment.end)
            if at == len(ends) or segment.part == STAND_IN:
                continue
            evaluates = segment.part != CHECKPOINTS and self.passes.evaluates(segment.begin)
            found[at][EVALUATION if evaluates else segment.part] += segment.seconds
        return found[self.warm_up :]


def _parameters(optimizer: Optimizer) -> Iterator[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])
