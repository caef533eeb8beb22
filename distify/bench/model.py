"""What a step is made of on N ranks, from one process and one collective.

    T(N) = T_load + T_comp(B/N) + T_sync(N, bytes)

T_load and T_comp are timed: one process trains as a rank of N does, on its share of the batch. Where N ranks share
this machine, N such processes are timed at once, which is what sharing its cores costs. What they would have exchanged
is known by its bytes, and has its price by the ring's formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from distify_runtime.bench.clock import BACKWARD, GRADIENTS, SYNCHRONISING

from distify.bench.timings import Message, Timings


@dataclass(frozen=True)
class Link:
    """What lies between ranks. bandwidth: bytes that one sends in a second; latency: seconds of one exchange."""

    bandwidth: float
    latency: float
    how: str = ""  # it is known


@dataclass(frozen=True)
class Predicted:
    """Seconds of a step's parts on so many ranks. `here`: they share this machine."""

    ranks: int
    parts: dict[str, float]
    link: Link
    here: bool
    samples: int

    @property
    def step(self) -> float:
        return sum(self.parts.values())


def link_of(ranks: int, size: int, small: float, large: float, how: str) -> Link:
    """From one short collective: seconds of an all-reduce of next to nothing, and of `size` bytes."""
    latency = small / math.log2(ranks)
    return Link(2 * (ranks - 1) / ranks * size / max(large - small, 1e-9), latency, how)


def all_reduce(size: float, ranks: int, link: Link) -> float:
    """Seconds: around a ring, each rank sends and gets 2 (N - 1) / N of the bytes (Patarasuk and Yuan, 2009)."""
    return 2 * (ranks - 1) / ranks * size / link.bandwidth + _latency(ranks, link)


def price(message: Message, ranks: int, link: Link) -> float:
    """Seconds of a collective, where nobody waits for anybody."""
    if message.kind == "all-gather":
        return (ranks - 1) * message.size / link.bandwidth + _latency(ranks, link)
    if message.kind == "broadcast":
        return message.size / link.bandwidth + _latency(ranks, link)
    return all_reduce(message.size, ranks, link)


def _latency(ranks: int, link: Link) -> float:
    return link.latency * math.log2(ranks)


def exposed(sizes: Sequence[float], prices: Sequence[float], backward: float) -> float:
    """Seconds that buckets still travel when the backward pass has ended.

    They travel one after the other, each as soon as its gradients are there; those come as the bytes do.
    """
    total, ready, free = sum(sizes) or 1.0, 0.0, 0.0
    for size, seconds in zip(sizes, prices, strict=True):
        ready += size / total * backward
        free = max(free, ready) + seconds
    return max(0.0, free - backward)


def predicted(alone: Timings, link: Link, here: bool) -> Predicted:
    """alone: a process that trained as a rank of `alone.ranks`; or several at once, if they are to share a machine."""
    parts = dict(alone.parts)
    computes_beside = alone.device == "cuda" or not here  # else what travels takes the cores from what computes
    parts[GRADIENTS] += alone.waiting  # for the slowest of those that share the cores
    for sent in alone.messages:
        for part in SYNCHRONISING:
            own = [one for one in sent if one.part == part]
            hidden = [one for one in own if one.overlaps and computes_beside]
            waited = sum(price(one, alone.ranks, link) for one in own if one not in hidden)
            if part == GRADIENTS and hidden:
                prices = [price(one, alone.ranks, link) for one in hidden]
                waited += exposed([one.size for one in hidden], prices, alone.parts[BACKWARD])
            parts[part] += waited / len(alone.messages)
    return Predicted(alone.ranks, parts, link, here, alone.samples)
