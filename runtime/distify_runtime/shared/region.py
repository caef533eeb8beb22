"""What holds while a rank computes its part of a forward pass.

Parameters are copies, whose gradients are summed over the ranks; BatchNorm and, where a model returns a loss, the
library's losses see the whole batch; random numbers are the rank's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from distify_runtime import communicator
from distify_runtime.environment import unasked
from distify_runtime.shared import operations
from distify_runtime.shared.copies import Copies
from distify_runtime.shared.messages import Tag, What, exchange
from distify_runtime.shared.readings import Readings, unnoticed
from distify_runtime.shared.streams import Sources, own_stream

_FAILED, _MEETS, _DONE = range(3)


class OtherRankFailed(Exception):
    """Another rank cannot compute its part, or is at the end of it already."""


@dataclass
class Region:
    """One shared pass on this rank. `counts`: the samples of each rank."""

    tag: Tag
    counts: tuple[int, ...]
    copies: list[Copies]
    exact_losses: bool = False
    draws: Sources = field(default_factory=lambda: Sources(numpy=True))
    place: int = 0  # of the collective before, within the pass
    asks: bool = False  # before each collective, whether all ranks come to it: a part of a batch may raise an error

    readings: Readings = field(default_factory=Readings)

    #: What the outputs hang on besides, so that every backward pass comes by on all ranks.
    anchors: list[Tensor | None] = field(default_factory=list)

    @unnoticed()
    def sum(self, term: Tensor) -> Tensor:
        """The sum over the ranks, each of which goes on with it by itself. A collective."""
        self._ask(_MEETS, term.shape)
        self.place += 1
        return operations.sum_over_ranks(replace(self.tag, what=What.SUM, place=self.place), term)

    @unnoticed()
    def everyones(self, values: Tensor, of: Tensor | None) -> Tensor:
        """Each rank's values, of shape (ranks, …), without gradients. A collective.

        of: a parameter or buffer of the layer that asks: ranks that are at different layers must not meet.
        """
        self._ask(_MEETS, values.shape)
        self.place += 1
        layer = next((number for one in self.copies if (number := one.place_of(of))), 0)
        tag = replace(self.tag, what=What.SUM, place=self.place, layer=layer)
        return torch.stack(exchange(tag, [values], [[values.shape] * len(self.counts)]).parts[0])

    def sum_at(self, place: int, term: Tensor) -> Tensor:
        """The same, in a backward pass, for what was summed as the `place`-th."""
        return operations.sum_over_ranks(replace(self.tag, what=What.SUM_BACKWARD, place=place), term)

    def _ask(self, state: int, shape: Sequence[int] = ()) -> None:
        if not self.asks:
            return
        mine = (state, tuple(shape))  # which differs where the channels of a BatchNorm were taken for its batch
        if any(one != mine for one in communicator.all_gather_object(mine)) and state != _FAILED:
            raise OtherRankFailed

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """No rank goes on to a collective that another will not come to, for its part has raised an error."""
        try:
            yield
        except OtherRankFailed:
            raise
        except Exception:
            self._ask(_FAILED)
            raise
        self._ask(_DONE)

    @contextmanager
    def entered(self, own_draws: bool = True) -> Iterator[None]:
        """Compute as a part of this pass; also what a backward pass computes again."""
        global _current
        before = _current
        with ExitStack() as stack:
            stack.enter_context(unasked())
            for copies in self.copies:
                stack.enter_context(copies.in_place())
            if own_draws:
                stack.enter_context(own_stream().drawn(self.draws))
            _current = self
            try:
                yield
            finally:
                _current = before

    @contextmanager
    def with_copies(self, copies: Copies) -> Iterator[None]:
        """Copies of a model that this pass calls, too, and that is no part of its own."""
        copies.refresh(self.tag)
        self.anchors.append(copies.anchor)
        self.copies.append(copies)
        with copies.in_place():
            yield


_current: Region | None = None


def current() -> Region | None:
    """The pass that this rank is computing its part of, if any."""
    return _current


_whole = False


def computes_whole() -> bool:
    """Whether a batch is to go whole through all models."""
    return _whole


@contextmanager
def whole_batch() -> Iterator[None]:
    """Nothing in what is computed here is shared."""
    global _whole
    before, _whole = _whole, True
    try:
        yield
    finally:
        _whole = before


_checkpointed = False


def is_checkpointed() -> bool:
    """Whether what the script computes whole is computed once more when a backward pass comes to it."""
    return _checkpointed


@contextmanager
def checkpointed() -> Iterator[None]:
    """Nothing in what is computed here is shared, since it is computed twice, outside of a shared pass."""
    global _checkpointed
    before, _checkpointed = _checkpointed, _checkpointed or not _whole
    try:
        with whole_batch():
            yield
    finally:
        _checkpointed = before


_comparing = False


def is_comparing() -> bool:
    """Whether what is computed is only compared, and of no consequence."""
    return _comparing


@contextmanager
def comparing() -> Iterator[None]:
    global _comparing
    before, _comparing = _comparing, True
    try:
        with unasked():
            yield
    finally:
        _comparing = before


def even_counts(samples: int, ranks: int) -> tuple[int, ...]:
    """As `torch.tensor_split`: the first ranks have one sample more where they do not divide."""
    return tuple(samples // ranks + (rank < samples % ranks) for rank in range(ranks))


def uneven_counts(samples: int, ranks: int) -> tuple[int, ...]:
    """No two neighbours alike if that can be: a mean of means is then another one than the mean."""
    counts: Sequence[int] = even_counts(samples, ranks)
    if samples % ranks == 0 and samples // ranks > 1:
        counts = [*counts[:-1], counts[-1] - 1]
        counts[0] += 1
    return tuple(counts)


_checks_a_trace = False


def is_exported() -> bool:
    """Whether this call is only looked at, to write the model down: one rank may do so alone."""
    exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", lambda: False)
    jit: Any = torch.jit  # which exports it to nobody
    return bool(jit.is_tracing()) or exporting() or _checks_a_trace


def a_trace_is_checked(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Around what compares a trace with the model that it was taken of, and calls it as a training would."""
    global _checks_a_trace
    _checks_a_trace = True
    try:
        return original(*args, **kwargs)
    finally:
        _checks_a_trace = False


def is_transformed() -> bool:
    """Whether `vmap` or `grad` of torch.func is at work, which know of no collectives."""
    functorch: Any = torch._C._functorch
    return functorch.maybe_current_level() is not None
