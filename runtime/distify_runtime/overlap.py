"""Gradients that travel while the backward pass is still computing others.

Between two calls of `all_reduce_gradients` for the same parameters lies a round, of one or more backward passes. Of the
first round nothing is known. The second is watched: which gradients there are, and how often each is added to. From the
third on, buckets of gradients start their all-reduce as soon as each of theirs has been added to as often as in any
round before; the call waits for them. A single bucket would start as the backward pass ends: it is left to the call,
which sends with it what else ranks must agree upon, and nothing is watched any more.

That is a guess, and is checked: a gradient that is another one than its bucket was filled with, or has been written to
since (torch counts that), is left to be averaged again, on all ranks. What a rank guesses is its own affair: buckets
start in one order on all ranks, those that have not started when the call comes start then, and they have a process
group of their own, so that they need not wait for anything else that ranks do together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from threading import Lock
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from distify_runtime import communicator
from distify_runtime.communicator import Op, Pending
from distify_runtime.environment import world_size
from distify_runtime.process_group import at_the_end

#: What ranks hold of a parameter's gradient: bits, so that OR tells what all of them hold of it.
BITS = DENSE, SPARSE, CHANGED = (1, 2, 4)
#: Bytes in one collective: the gradients in so many parts, most of which travel early, but none smaller or larger than
#: this. Small ones cost more in latency than starting early saves.
BUCKETS, SMALLEST_BUCKET, LARGEST_BUCKET = 4, 8 * 2**20, 25 * 2**20
#: Each set of parameters has a process group of its own, with threads and connections: not for more sets than this.
MOST_REDUCERS = 8

_reducers: Any = WeakTensorKeyDictionary()  # lists of them, by the first of their parameters, with which they go
_made = 0


def reducer_of(parameters: Sequence[Tensor]) -> Reducer | None:
    """What sends these parameters' gradients early; None where too many others do so for other parameters."""
    global _made
    if not parameters:
        return None
    known: list[Reducer] = _reducers.get(parameters[0], [])
    for reducer in known:
        if reducer.is_of(parameters):
            return reducer
    if _made == MOST_REDUCERS:
        return None
    _made += 1
    made = Reducer(parameters, f"gradients {_made}")
    _reducers[parameters[0]] = [*known, made]
    return made


def _stop() -> None:
    """No bucket starts once the process group is gone."""
    for first in list(_reducers):
        for reducer in _reducers[first]:
            reducer.stop()


@dataclass(eq=False)
class _Bucket:
    members: tuple[int, ...]  # places in the list of parameters
    flat: Tensor
    shapes: list[torch.Size]
    views: list[Tensor]
    waits_for: int = 0  # gradients
    work: Pending | None = None
    filled: list[Tensor | None] = field(default_factory=list)  # with these gradients
    versions: list[int] = field(default_factory=list)  # as they were then

    @torch.no_grad()
    def fill(self, gradients: Iterable[Tensor | None]) -> None:
        """Those that do not fit count as zero; they are left over."""
        self.filled = [
            one if self._fits(one, shape) else None for one, shape in zip(gradients, self.shapes, strict=True)
        ]
        fitting = [one for one in self.filled if one is not None]
        views = self.views
        if len(fitting) < len(views):
            self.flat.zero_()
            views = [view for one, view in zip(self.filled, views, strict=True) if one is not None]
        if fitting:
            torch._foreach_copy_(views, fitting)
        self.versions = [0 if one is None else one._version for one in self.filled]
        self.flat.div_(world_size())  # before it is summed: half precision has no room for the sum

    def differing(self, gradients: Sequence[Tensor | None]) -> Iterator[int]:
        """The places of gradients that are not what has been sent."""
        for index, filled, version in zip(self.members, self.filled, self.versions, strict=True):
            one = gradients[index]
            if filled is not one or (one is not None and one._version != version):
                yield index

    def _fits(self, gradient: Tensor | None, shape: torch.Size) -> bool:
        return (
            gradient is not None
            and gradient.layout is torch.strided
            and gradient.shape == shape
            and gradient.dtype is self.flat.dtype
            and gradient.device == self.flat.device
        )


class Reducer:
    """Of one set of parameters, in the order in which `all_reduce_gradients` is given them."""

    def __init__(self, parameters: Sequence[Tensor], purpose: str) -> None:
        communicator.open_purpose(purpose)
        self._parameters = list(map(ref, parameters))
        size = sum(parameter.nbytes for parameter in parameters)
        self._purpose, self._lock = purpose, Lock()
        self._bucket_bytes = min(LARGEST_BUCKET, max(SMALLEST_BUCKET, size // BUCKETS))
        self._times = [0] * len(parameters)  # that each gradient has been added to in this round
        self._most = [0] * len(parameters)  # and in any round
        self._order: dict[int, None] = {}  # in which they were complete
        self._buckets: list[_Bucket] = []
        self._bucket_of: dict[int, _Bucket] = {}
        self._complete: dict[int, Tensor | None] = {}
        self._started = 0  # buckets
        self._room: Tensor | None = None  # in the only bucket, for what ranks hold
        self._is_watching = False
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(partial(self._added_to, index))  # type: ignore[no-untyped-call]
            for index, parameter in enumerate(parameters)
            if parameter.requires_grad
        ]

    def is_of(self, parameters: Sequence[Tensor]) -> bool:
        """Whether of these very parameters: what has the place in memory of one that is gone is another one."""
        return len(parameters) == len(self._parameters) and all(
            known() is one for known, one in zip(self._parameters, parameters, strict=True)
        )

    def stop(self) -> None:
        self._is_watching = False
        self._buckets.clear()
        self._room = None

    # ---- during backward passes

    def _added_to(self, index: int, parameter: Tensor) -> None:
        if not self._is_watching:
            return
        with self._lock:  # gradients on several devices come from several threads
            self._times[index] += 1
            if not self._buckets:
                self._order.pop(index, None)
                self._order[index] = None
            elif self._times[index] == self._most[index] and index in self._bucket_of:
                self._complete[index] = parameter.grad
                self._bucket_of[index].waits_for -= 1
                while self._started < len(self._buckets) and not self._buckets[self._started].waits_for:
                    self._start_next(self._complete)

    def _start_next(self, gradients: dict[int, Tensor | None]) -> None:
        bucket = self._buckets[self._started]
        self._started += 1
        bucket.fill(map(gradients.get, bucket.members))
        bucket.work = communicator.start_all_reduce(bucket.flat, purpose=self._purpose)

    # ---- at the end of a round

    def agree(self, gradients: Sequence[Tensor | None]) -> list[int]:
        """What all ranks hold of each gradient: bits. Each bucket has started then, once in a round on each rank."""
        if self._room is not None:
            (bucket,) = self._buckets
            bucket.fill(map(gradients.__getitem__, bucket.members))
            self._room.copy_(_rows(tuple(self._held(gradients))))
            communicator.all_reduce(bucket.flat, purpose=self._purpose)
            return _read(self._room)
        while self._started < len(self._buckets):
            self._start_next(dict(enumerate(gradients)))
        return agreed(self._held(gradients))

    def _held(self, gradients: Sequence[Tensor | None]) -> list[int]:
        """What this rank holds of each gradient, once buckets are filled."""
        bits = list(map(held_of, gradients))
        for bucket in self._buckets:
            for index in bucket.differing(gradients):
                bits[index] |= CHANGED
        return bits

    @torch.no_grad()
    def write_back(self, parameters: Sequence[Tensor], held: Sequence[int]) -> set[int]:
        """The places of the parameters whose gradients are averaged now; `held` is what all ranks hold of each."""
        done: set[int] = set()
        for bucket in self._buckets:
            sent = [(at, index) for at, index in enumerate(bucket.members) if held[index] == DENSE]
            averages = [bucket.views[at] for at, _ in sent]
            gradients = [dense_gradient(parameters[index]) for _, index in sent]
            if bucket.work is not None:
                bucket.work.wait()
            if sent:
                torch._foreach_copy_(gradients, averages)
            done.update(index for _, index in sent)
        return done

    def end_round(self, parameters: Sequence[Tensor], held: Sequence[int]) -> None:
        if self._is_watching and not self._buckets:
            self._make_buckets(parameters, [index for index, bits in enumerate(held) if bits == DENSE])
        self._is_watching = True
        self._most = list(map(max, self._most, self._times))
        self._times = [0] * len(self._times)
        self._complete.clear()
        self._started = 0
        for bucket in self._buckets:
            bucket.work, bucket.filled, bucket.versions = None, [], []
            bucket.waits_for = sum(self._most[index] > 0 for index in bucket.members)

    def _make_buckets(self, parameters: Sequence[Tensor], members: list[int]) -> None:
        """In the order in which rank 0's gradients were complete; each of one dtype, on one device."""
        rest = set(members)
        known = [index for index in self._order if index in rest]
        order = torch.tensor(list(dict.fromkeys([*known, *members])), device="cpu")
        communicator.broadcast(order)
        groups: list[list[int]] = []
        open_ones: dict[tuple[torch.dtype, torch.device], list[int]] = {}
        for index in order.tolist():
            kind = (parameters[index].dtype, parameters[index].device)
            group = open_ones.setdefault(kind, [])
            group.append(index)
            if sum(parameters[one].nbytes for one in group) >= self._bucket_bytes:
                groups.append(open_ones.pop(kind))
        groups.extend(open_ones.values())
        for group in groups:
            self._make_bucket(parameters, group, is_only=len(groups) == 1)

    def _make_bucket(self, parameters: Sequence[Tensor], members: list[int], is_only: bool) -> None:
        shapes = [parameters[index].shape for index in members]
        sizes = [shape.numel() for shape in shapes]
        # On a GPU, to read there what ranks hold would be to wait for all that it has to do.
        room = len(BITS) * len(parameters) if is_only and parameters[members[0]].device.type == "cpu" else 0
        flat = parameters[members[0]].new_empty(sum(sizes) + room)
        *parts, rest = torch.split(flat, [*sizes, room])
        views = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        bucket = _Bucket(tuple(members), flat, shapes, views)
        self._bucket_of.update(dict.fromkeys(members, bucket))
        self._buckets.append(bucket)
        if room:
            self._room = rest.detach().view(len(BITS), len(parameters))
        while is_only and self._hooks:
            self._hooks.pop().remove()


def agreed(held: list[int]) -> list[int]:
    """What all ranks hold of each gradient. A collective."""
    bits = torch.tensor(held, dtype=torch.uint8, device="cpu")
    communicator.all_reduce(bits, Op.OR)
    return [int(one) for one in bits.tolist()]


@lru_cache(maxsize=16)
def _rows(held: tuple[int, ...]) -> Tensor:
    """A row of numbers for each bit; the ranks' sum of it is not 0 where a rank has the bit."""
    return torch.tensor([[bool(bits & bit) for bits in held] for bit in BITS], device="cpu")


def _read(room: Tensor) -> list[int]:
    dense, sparse, changed = room.tolist()
    return [
        DENSE * bool(d) | SPARSE * bool(s) | CHANGED * bool(c) for d, s, c in zip(dense, sparse, changed, strict=True)
    ]


def held_of(gradient: Tensor | None) -> int:
    if gradient is None:
        return 0
    return SPARSE if gradient.is_sparse else DENSE


def dense_gradient(parameter: Tensor) -> Tensor:
    """The gradient, to be written to; one of zeros where there is none."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    elif parameter.grad.is_sparse:
        parameter.grad = parameter.grad.to_dense()
    return parameter.grad.detach() if parameter.grad.requires_grad else parameter.grad


at_the_end(_stop)
