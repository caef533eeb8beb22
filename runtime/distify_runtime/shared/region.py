"""What holds while a rank computes its part of a forward pass.

Parameters are copies, whose gradients are summed over the ranks; BatchNorm and, where a model returns a loss, the
library's losses see the whole batch; random numbers are the rank's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from distify_runtime.environment import unasked
from distify_runtime.shared import operations
from distify_runtime.shared.copies import Copies
from distify_runtime.shared.messages import Misfit, Station, Tag, What, exchange, exchange_nothing, fingerprint
from distify_runtime.shared.readings import Readings, unnoticed
from distify_runtime.shared.streams import Sources, own_stream

_T = TypeVar("_T")
_FAILED = -1  # in the place of what a rank has to send: an error

#: Where ranks have met in passes of one kind, in order; None: at their end.
Course = list[Station | None]


class Parted(BaseException):
    """Parts of one pass have come to different collectives, or some has failed. Raised on every rank, before it waits
    for what does not come; says where they are. Nothing in a model is to catch it. `failed`: the ranks whose part has
    raised an error.
    """

    failed: tuple[int, ...] = ()


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
    course: Course = field(default_factory=list)
    ending: Station | None = None  # what is met at where the course ends
    has_ended: bool = False  # what meets from here on is a backward pass
    parted: Parted | None = None
    met: int = 0  # of the stations of the course

    readings: Readings = field(default_factory=Readings)

    #: What the outputs hang on besides, so that every backward pass comes by on all ranks.
    anchors: list[Tensor | None] = field(default_factory=list)

    @unnoticed()
    def sum(self, term: Tensor, line: int) -> Tensor:
        """The sum over the ranks, each of which goes on with it by itself. A collective.

        line: by `of_line`, of the script: ranks that are at different ones must not meet.
        """
        self.place += 1
        return self._summed(replace(self.tag, what=What.SUM, place=self.place, layer=line), term)

    @unnoticed()
    def everyones(self, values: Tensor, of: Tensor | None) -> Tensor:
        """Each rank's values, of shape (ranks, …), without gradients. A collective.

        of: a parameter or buffer of the layer that asks: ranks that are at different layers must not meet.
        """
        self.place += 1
        layer = next((number for one in self.copies if (number := one.place_of(of))), 0)
        tag = replace(self.tag, what=What.SUM, place=self.place, layer=layer)
        return torch.stack(self._meet(tag, values, lambda shapes: exchange(tag, [values], shapes).parts[0]))

    @unnoticed()
    def sum_at(self, place: int, term: Tensor) -> Tensor:
        """The same, in a backward pass, for what was summed as the `place`-th."""
        return self._summed(replace(self.tag, what=What.SUM_BACKWARD, place=place), term)

    def end(self, reached: int, send: Callable[[bool], _T]) -> _T:
        """What ranks exchange once their parts are computed. A collective.

        reached: the same on all ranks. send: is told whether nothing is known of the others but that they are there,
        too; else it may raise Misfit, on every rank.
        """
        try:
            return self._come(self.tag, None, reached, send)
        finally:
            self.has_ended = True

    def fail(self) -> None:
        """This rank's part has raised an error: no other is to wait for it. A collective. Raises Parted on all of them.

        Whether the whole batch raises it, too, the ranks find out together.
        """
        if self.parted is not None:
            raise self.parted
        if not self.has_ended:
            self._meet_with_nothing()
            self._agree(self.tag, 0, failed=True)

    def _meet_with_nothing(self) -> None:
        """Where the others wait, who have been here before."""
        others = (self.course[self.met] or self.ending) if self.met < len(self.course) and not self.asks else None
        if others is not None:
            with suppress(Misfit):
                exchange_nothing(self.tag, others)

    def _summed(self, tag: Tag, term: Tensor) -> Tensor:
        wide = operations.wide(term)
        return self._meet(tag, wide, lambda *_: operations.sum_over_ranks(tag, wide)).to(term.dtype)

    def _meet(self, tag: Tag, sent: Tensor, send: Callable[[list[list[torch.Size]]], _T]) -> _T:
        shapes = [[sent.shape] * len(self.counts)]
        return self._come(tag, Station.of([sent], shapes), fingerprint([sent], shapes), lambda _: send(shapes))

    def _come(self, tag: Tag, station: Station | None, form: int, send: Callable[[bool], _T]) -> _T:
        """What ranks exchange where this one has come to. Raises Parted on all of them where one is elsewhere.

        No rank may wait for a message of another size than the others send. What they send is known from the passes
        before: a rank that is elsewhere sends as much, with nothing in it, and all of them see that; then, and in the
        first pass, they tell each other where they are.
        """
        if self.parted is not None:  # which the model has caught
            raise self.parted
        if self.has_ended:
            return send(False)
        at, self.met = self.met, self.met + 1
        if at < len(self.course) and not self.asks:
            expected = self.course[at]
            with suppress(Misfit):
                if expected == station:
                    return send(False)
                others = expected or self.ending
                assert others is not None  # of a pass that has a course
                exchange_nothing(tag, others)
        self._agree(tag, form)
        self.course[at : at + 1] = [station]
        return send(True)

    def _agree(self, tag: Tag, form: int, failed: bool = False) -> None:
        """All ranks are at this place, or Parted is raised on all of them. A collective, of one size at any place."""
        mine = torch.tensor([*tag.words(), _FAILED if failed else form], device="cpu")
        (everyone,) = exchange(self.tag.of(What.PLACES), [mine], [[mine.shape] * len(self.counts)]).parts
        if failed or any(one.tolist() != mine.tolist() for one in everyone):
            words = [one.tolist() for one in everyone]
            is_here = all(one[:-1] == words[0][:-1] for one in words)
            otherwise = ", in another shape" if tag.place else ", from other sums inside"
            told = (
                str(Tag.of_words(at)) + (", with an error" if form == _FAILED else otherwise * is_here)
                for *at, form in words
            )
            self.parted = Parted("; ".join(f"rank {rank}: {one}" for rank, one in enumerate(told)))
            self.parted.failed = tuple(rank for rank, (*_, form) in enumerate(words) if form == _FAILED)
            raise self.parted

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """No rank goes on to a collective that another will not come to, for its part has raised an error."""
        try:
            yield
        except Exception:
            if self.parted is None:
                with suppress(Parted):
                    self._agree(self.tag, 0, failed=True)
            raise
        if self.parted is not None:
            raise self.parted
        self._agree(self.tag, 0)

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
