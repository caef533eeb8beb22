"""Gradients that travel while the backward pass is still computing others.

Between two calls of `all_reduce_gradients` for the same parameters lies a round, of one or more backward passes. Of the
first round nothing is known. The second is watched: which gradients there are, and how often each is added to. From the
third on, buckets of gradients start their all-reduce as soon as each of theirs has been added to as often as in any
round before; the call waits for them.

That is a guess, and is checked: a gradient that is another one than its bucket was filled with, or has been written to
since (torch counts that), is left to be averaged again, on all ranks. What a rank guesses is its own affair: buckets
start in one order on all ranks, those that have not started when the call comes start then, and they have a process
group of their own, so that they need not wait for anything else that ranks do together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from distify_runtime import communicator
from distify_runtime.communicator import Pending
from distify_runtime.environment import world_size
from distify_runtime.process_group import at_the_end

#: What ranks hold of a parameter's gradient: bits, so that OR tells what all of them hold of it.
DENSE, SPARSE, CHANGED = 1, 2, 4
#: Bytes in one collective: the gradients in so many parts, most of which travel early, but none smaller or larger than
#: this. Small ones cost more in latency than starting early saves.
BUCKETS, SMALLEST_BUCKET, LARGEST_BUCKET = 4, 8 * 2**20, 25 * 2**20
#: Each set of parameters has a process group of its own, with threads and connections: not for more sets than this.
MOST_REDUCERS = 8

_reducers: WeakValueDictionary[tuple[int, ...], Reducer] = WeakValueDictionary()  # the parameters' hooks keep them
_made = 0


def reducer_of(parameters: Sequence[Tensor]) -> Reducer | None:
    """What sends these parameters' gradients early; None where too many others do so for other parameters."""
    global _made
    key = tuple(map(id, parameters))
    known = _reducers.get(key)
    if known is not None or _made == MOST_REDUCERS:
        return known
    _made += 1
    _reducers[key] = made = Reducer(parameters, f"gradients {_made}")
    return made


def _stop() -> None:
    """No bucket starts once the process group is gone."""
    for reducer in list(_reducers.values()):
        reducer.stop()


@dataclass(eq=False)
class _Bucket:
    members: tuple[int, ...]  # places in the list of parameters
    flat: Tensor
    views: list[Tensor]
    waits_for: int = 0  # gradients
    work: Pending | None = None
    filled: list[tuple[Tensor | None, int]] = field(default_factory=list)  # with these gradients, as they were then

    @torch.no_grad()
    def start(self, gradients: Iterable[Tensor | None], purpose: str) -> None:
        """Those that do not fit count as zero; they are left over."""
        fitting = [one if _fits(one, view) else None for one, view in zip(gradients, self.views, strict=True)]
        self.filled = [(one, 0 if one is None else one._version) for one in fitting]
        pairs = [(view, one) for one, view in zip(fitting, self.views, strict=True) if one is not None]
        if len(pairs) < len(self.views):
            self.flat.zero_()
        if pairs:
            torch._foreach_copy_([view for view, _ in pairs], [one for _, one in pairs])
        self.flat.div_(world_size())  # before it is summed: half precision has no room for the sum
        self.work = communicator.start_all_reduce(self.flat, purpose=purpose)

    def holds(self, position: int, gradient: Tensor | None) -> bool:
        """Whether a gradient is what has been sent, or can be sent."""
        if self.work is None:
            return gradient is None or _fits(gradient, self.views[position])
        filled, version = self.filled[position]
        return filled is gradient and (gradient is None or gradient._version == version)


def _fits(gradient: Tensor | None, view: Tensor) -> bool:
    return (
        gradient is not None
        and gradient.layout is torch.strided
        and gradient.shape == view.shape
        and gradient.dtype is view.dtype
        and gradient.device == view.device
    )


class Reducer:
    """Of one set of parameters, in the order in which `all_reduce_gradients` is given them."""

    def __init__(self, parameters: Sequence[Tensor], purpose: str) -> None:
        communicator.open_purpose(purpose)
        size = sum(parameter.nbytes for parameter in parameters)
        self._purpose, self._lock = purpose, Lock()
        self._bucket_bytes = min(LARGEST_BUCKET, max(SMALLEST_BUCKET, size // BUCKETS))
        self._times = [0] * len(parameters)  # that each gradient has been added to in this round
        self._most = [0] * len(parameters)  # and in any round
        self._order: dict[int, None] = {}  # in which they were complete
        self._buckets: list[_Bucket] = []
        self._places: dict[int, tuple[_Bucket, int]] = {}
        self._complete: dict[int, Tensor | None] = {}
        self._started = 0  # buckets
        self._is_watching = False
        for index, parameter in enumerate(parameters):
            if parameter.requires_grad:
                hook = partial(self._added_to, index)
                parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        self._is_watching = False
        self._buckets.clear()

    # ---- during backward passes

    def _added_to(self, index: int, parameter: Tensor) -> None:
        if not self._is_watching:
            return
        with self._lock:  # gradients on several devices come from several threads
            self._times[index] += 1
            if not self._buckets:
                self._order.pop(index, None)
                self._order[index] = None
            elif self._times[index] == self._most[index] and index in self._places:
                self._complete[index] = parameter.grad
                self._places[index][0].waits_for -= 1
                while self._started < len(self._buckets) and not self._buckets[self._started].waits_for:
                    self._start_next(self._complete)

    def _start_next(self, gradients: dict[int, Tensor | None]) -> None:
        bucket = self._buckets[self._started]
        self._started += 1
        bucket.start(map(gradients.get, bucket.members), self._purpose)

    # ---- at the end of a round

    def held(self, gradients: Sequence[Tensor | None]) -> list[int]:
        """What this rank holds of each gradient: bits."""
        return [held_of(one) | CHANGED * (not self._is_sent(index, one)) for index, one in enumerate(gradients)]

    def _is_sent(self, index: int, gradient: Tensor | None) -> bool:
        bucket, position = self._places.get(index, (None, 0))
        return bucket is None or bucket.holds(position, gradient)

    def start_all(self, gradients: Sequence[Tensor | None]) -> None:
        """The buckets that have not started, so that each rank starts each bucket once in a round."""
        while self._started < len(self._buckets):
            self._start_next(dict(enumerate(gradients)))

    @torch.no_grad()
    def write_back(self, parameters: Sequence[Tensor], held: Sequence[int]) -> set[int]:
        """The places of the parameters whose gradients are averaged now; `held` is what all ranks hold of each."""
        done: set[int] = set()
        for bucket in self._buckets:
            assert bucket.work is not None
            bucket.work.wait()
            sent = [(at, index) for at, index in enumerate(bucket.members) if held[index] == DENSE]
            if sent:
                averages = [bucket.views[at] for at, _ in sent]
                torch._foreach_copy_([dense_gradient(parameters[index]) for _, index in sent], averages)
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
            bucket.work, bucket.filled = None, []
            bucket.waits_for = sum(self._most[index] > 0 for index in bucket.members)

    def _make_buckets(self, parameters: Sequence[Tensor], members: list[int]) -> None:
        """In the order in which rank 0's gradients were complete; each of one dtype, on one device."""
        rest = set(members)
        known = [index for index in self._order if index in rest]
        order = torch.tensor(list(dict.fromkeys([*known, *members])))
        communicator.broadcast(order)
        open_ones: dict[tuple[torch.dtype, torch.device], list[int]] = {}
        for index in order.tolist():
            kind = (parameters[index].dtype, parameters[index].device)
            bucket = open_ones.setdefault(kind, [])
            bucket.append(index)
            if sum(parameters[one].nbytes for one in bucket) >= self._bucket_bytes:
                self._make_bucket(parameters, open_ones.pop(kind))
        for bucket in open_ones.values():
            self._make_bucket(parameters, bucket)

    def _make_bucket(self, parameters: Sequence[Tensor], members: list[int]) -> None:
        shapes = [parameters[index].shape for index in members]
        flat = parameters[members[0]].new_empty(sum(shape.numel() for shape in shapes))
        parts = torch.split(flat, [shape.numel() for shape in shapes])
        bucket = _Bucket(tuple(members), flat, [part.view(shape) for part, shape in zip(parts, shapes, strict=True)])
        self._places.update((index, (bucket, position)) for position, index in enumerate(members))
        self._buckets.append(bucket)


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
    return parameter.grad.detach()


at_the_end(_stop)
