"""The plan by which a call is shared: the first that passes a check.

One is looked for at the first call of each form of arguments, where single numbers are drawn with low ones and with
high ones; it is checked again at calls 2, 10, 100 and 1000 of those that train, and where one of them computes what
none of these has computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distify_runtime import communicator
from distify_runtime.environment import world_size
from distify_runtime.output import note
from distify_runtime.shared.check import Check, OutOfMemory, Raised, Traces, unseen
from distify_runtime.shared.comparing import Passed
from distify_runtime.shared.draws import Side
from distify_runtime.shared.kinds import TooLarge
from distify_runtime.shared.plans import Call, Plan
from distify_runtime.shared.readings import Mixture

if TYPE_CHECKING:
    from distify_runtime.shared.models import SharedModel


@dataclass
class Found:
    """`why`: what speaks against sharing, if there is no plan; empty if this call does not tell.

    read: what ranks have read out of the parts that were compared; `read_besides`: by other draws. traces: what a whole
    batch leaves behind, and a part that could not be computed to its end.
    """

    plan: Plan | None
    why: str = ""
    read: Mixture = frozenset()
    traces: Traces = Traces.NONE
    read_besides: tuple[Mixture, ...] = ()


def find_plan(
    model: SharedModel,
    call: Call,
    known: Sequence[Plan] | None,
    counts: tuple[int, ...] | None = None,
    vouched: bool = False,
    traces: bool = False,
) -> Found:
    """The first plan, of those known or of all that could be, that passes. All ranks find the same. Collectives.

    counts: the samples of each rank; else as uneven as can be. vouched: gradients of such calls have been compared.
    traces: are told even if there is a plan.
    """
    if known is not None:
        return _Search(model, call, known, counts, vouched, traces=traces).found
    search = _Search(model, call, None, counts, vouched, Side.LOW)
    if search.has_failed:  # it may be the numbers on this side
        return _Search(model, call, None, counts, vouched).found
    found = search.found
    if found.plan is not None and search.has_sides:  # what is decided by one number is compared on both of its sides
        other = _Search(model, call, [found.plan], counts, vouched, Side.HIGH)
        if other.found.plan is not None:
            found.plan.operations |= other.found.plan.operations
            found.read_besides = (other.found.read,)
        elif not other.has_failed:
            return other.found
    if found.plan is not None and call.trains and (later := call.altered(found.plan.batch)) is not None:
        other = _Search(model, later, [found.plan], counts, vouched, must_be_finite=True)
        if other.found.plan is None and not other.has_failed and not other.found.read:
            return other.found
    return found


class _Search:
    """Of a plan, by one check. `has_failed`: the whole batch raises an error, or is to be finite, and is not.
    `has_sides`: of `OneRow`."""

    def __init__(
        self, model: SharedModel, call: Call, known: Sequence[Plan] | None, counts: tuple[int, ...] | None,
        vouched: bool, side: Side = Side.ANY, traces: bool = False, must_be_finite: bool = False,
    ) -> None:  # fmt: skip
        self.has_failed, self._tells_traces, self._must_be_finite = False, traces, must_be_finite
        self._check = Check(model, call.cut_off(), counts, vouched, turn=int(known is not None), side=side)
        self.found = self._find(model, call, known, vouched)
        self.has_sides = self._check.has_sides

    def _find(self, model: SharedModel, call: Call, known: Sequence[Plan] | None, vouched: bool) -> Found:
        check = self._check
        with unseen():
            whole = check.whole(())
        said = [one for one in communicator.all_gather_object(whole if isinstance(whole, str) else "") if one]
        if any(isinstance(one, OutOfMemory) for one in said):
            return _of_fewer(model, call, known, vouched)
        if said or isinstance(whole, str):  # where it raises an error, the call itself raises it
            raised = next((one for one in said if isinstance(one, Raised)), "")
            self.has_failed = bool(raised)
            return Found(None, "" if raised and known is None else str(raised or "".join(said[:1])))
        if self._must_be_finite and not all(communicator.all_gather_object(_is_finite(whole))):
            self.has_failed = True
            return Found(None)
        why = ""
        for plan in known or _candidates(call, whole):
            if plan.batch.samples(call.tensors) < world_size():
                continue  # it says nothing about larger batches
            with unseen():
                found = check.settled(plan)
            if isinstance(found, Plan):
                return Found(found, "", check.read, check.traces(whole) if self._tells_traces else Traces.NONE)
            why = why or found  # of the likeliest plan
        if why and call.is_of_one:  # what was tried were its entries
            why = "its batch is one sample, of which there is nothing to share"
        return Found(None, why, check.read, check.traces(whole))


def _is_finite(passed: Passed) -> bool:
    return all(bool(one.isfinite().all()) for one in passed.tensors if one.is_floating_point())


def _of_fewer(model: SharedModel, call: Call, known: Sequence[Plan] | None, vouched: bool) -> Found:
    """Of as many samples as one process has memory for: what holds for these, is taken to hold for all."""
    for batch in [plan.batch for plan in known] if known else call.batches():
        samples = batch.samples(call.tensors) // 2
        if samples >= 2 * world_size() and not batch.lists:
            found = find_plan(model, call.narrowed(batch, samples), known, vouched=vouched)
            if found.plan is not None:
                note(f"{model.name} is checked on {samples} samples of a batch: there is no memory for all of them")
                return found
    return Found(None, TooLarge("its whole batch needs more memory than there is, and a part of it tells nothing"))


def _candidates(call: Call, whole: Passed) -> Iterator[Plan]:
    for batch in call.batches():
        samples = batch.samples(call.tensors)
        if any(one.is_floating_point() and samples not in one.shape for one in whole.tensors):  # it may be a loss
            yield Plan(batch, [], exact_losses=True)
        yield Plan(batch, [])
        if batch.lists:
            yield Plan(batch, [], lists=True)
