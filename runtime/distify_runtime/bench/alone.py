"""One process that trains as a rank of many: the others are taken to do as it does, and answer at once.

So a share of a batch can be timed without the others, with all that a rank does beside: buckets that are filled,
statistics that are merged. What it would have exchanged is written down, to be priced.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import HashStore, ProcessGroup, Work

from distify_runtime import communicator
from distify_runtime.bench.clock import BACKWARD, GRADIENTS, OTHER, STAND_IN, SYNCHRONISING, Clock
from distify_runtime.patching import wrap

_NAME = "alone"
_NOT_SUMMED = (dist.ReduceOp.AVG, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.BOR, dist.ReduceOp.BAND)


@dataclass(frozen=True)
class Message:
    """What a rank hands over in a collective. `overlaps`: while a backward pass still computes."""

    time: float  # of `perf_counter`
    part: str
    kind: str
    size: int  # bytes of one rank
    overlaps: bool


@dataclass
class Messages:
    """All that this process has handed over."""

    clock: Clock
    sent: list[Message] = field(default_factory=list)

    def add(self, kind: str, tensors: Sequence[Tensor]) -> None:
        part, inside = self.clock.part, self.clock.is_within(BACKWARD)
        # What is no call of the runtime's comes from torch's own code: the buckets of DistributedDataParallel.
        known = part if part in SYNCHRONISING else GRADIENTS if inside else OTHER
        size = sum(one.nbytes for one in tensors)
        self.sent.append(Message(perf_counter(), known, kind, size, inside and known == GRADIENTS))


def stand_alone(messages: Messages) -> None:
    """From now on, a process group is one in which this process is rank 0, and its environment says how many it has."""
    ranks = int(os.environ["WORLD_SIZE"])

    def group(store: Any, rank: int, size: int, timeout: Any) -> dist.ProcessGroup:
        return _Alone(messages, ranks)

    def init(original: Any, *args: Any, **kwargs: Any) -> None:
        original(_NAME, store=HashStore(), rank=0, world_size=ranks)

    register: Any = dist.Backend.register_backend  # untyped in torch
    register(_NAME, group, devices=["cpu", "cuda"])
    wrap(dist, "init_process_group", init)
    wrap(communicator, "where_to_meet", lambda original, *args: {})


class _Work(Work):
    def __init__(self, result: Any) -> None:
        super().__init__()
        self._future: Any = torch.futures.Future()
        self._future.set_result(result)

    def wait(self, timeout: Any = None) -> bool:
        return True

    def get_future(self) -> Any:
        return self._future


class _Alone(ProcessGroup):
    """The collectives that torch asks a process group for, with what it hands them."""

    def __init__(self, messages: Messages, ranks: int) -> None:
        super().__init__(0, ranks)  # type: ignore[call-arg]  # as torch's own tests do it
        self._messages, self._ranks = messages, ranks

    def size(self) -> int:
        return self._ranks

    def getBackendName(self) -> str:
        return _NAME

    def allreduce(self, tensors: list[Tensor], options: Any = None) -> _Work:  # type: ignore[override]
        summed = options is None or getattr(options, "reduceOp", None) not in _NOT_SUMMED
        return self._reduced("all-reduce", tensors, self._ranks if summed else 1)

    def allreduce_coalesced(self, tensors: list[Tensor], options: Any = None) -> _Work:
        return self.allreduce(tensors, options)

    def broadcast(self, tensors: list[Tensor], options: Any = None) -> _Work:  # type: ignore[override]
        return self._reduced("broadcast", tensors, 1)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], options: Any = None) -> _Work:  # type: ignore[override]
        return self._gathered(inputs, [one for parts in outputs for one in parts], outputs)

    def _allgather_base(self, output: Tensor, given: Tensor, options: Any = None) -> _Work:
        return self._gathered([given], list(output.view(self._ranks, *given.shape).unbind()), output)

    def allgather_into_tensor_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], options: Any = None
    ) -> _Work:
        for output, given in zip(outputs, inputs, strict=True):
            self._allgather_base(output, given)
        return _Work(outputs)

    def barrier(self, options: Any = None) -> _Work:
        self._messages.add("all-reduce", [])
        return _Work([])

    @torch.no_grad()
    def _reduced(self, kind: str, tensors: list[Tensor], times: int) -> _Work:
        with self._messages.clock.of(self._noted(kind, tensors)):
            for one in tensors:
                one.mul_(times)
        return _Work(tensors)

    @torch.no_grad()
    def _gathered(self, inputs: list[Tensor], places: list[Tensor], result: Any) -> _Work:
        with self._messages.clock.of(self._noted("all-gather", inputs)):
            for number, place in enumerate(places):
                place.copy_(inputs[number % len(inputs)].view_as(place))
        return _Work(result)

    def _noted(self, kind: str, tensors: list[Tensor]) -> str:
        self._messages.add(kind, tensors)
        return STAND_IN
