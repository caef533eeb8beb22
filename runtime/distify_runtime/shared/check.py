"""Parts against the whole: a plan is followed only where a shared pass gives what a whole one gives.

At the first training call of each form of arguments, and again at calls 2, 10, 100 and 1000, the whole batch goes
through the model once more on every rank. Outputs, buffers and attributes that the pass changed, and the gradients of
one random projection of the outputs are compared. The model's state, random numbers and `.grad` stay as they are. It
costs about two forward and backward passes of the whole batch each time.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from distify_runtime import communicator
from distify_runtime.environment import world_size
from distify_runtime.shared import comparing, region
from distify_runtime.shared.attributes import Watched
from distify_runtime.shared.comparing import Passed
from distify_runtime.shared.draws import OneRow
from distify_runtime.shared.graph import leaves_past
from distify_runtime.shared.messages import RanksParted
from distify_runtime.shared.plans import Call, Output, Plan, batches
from distify_runtime.shared.proposals import output_of
from distify_runtime.shared.state import put_back
from distify_runtime.shared.streams import kept, numpy_position
from distify_runtime.shared.structure import Unknown, tensors_in

if TYPE_CHECKING:
    from distify_runtime.shared.models import SharedModel


@dataclass
class Found:
    """`why`: what speaks against sharing, if there is no plan; empty if this call does not tell."""

    plan: Plan | None
    why: str = ""


def find_plan(model: SharedModel, call: Call, known: Sequence[Plan] | None) -> Found:
    """The first plan, of those known or of all that could be, that passes. All ranks find the same. Collectives."""
    call = call.cut_off()
    why = ""
    before = numpy_position()
    with _unseen():
        with region.whole_batch():
            whole = _attempt(model, call, lambda: _in_whole(model, call))
        model.draws_numpy = model.draws_numpy or numpy_position() != before
    if isinstance(whole, _Raised) and known is None:
        return Found(None, "")  # the script's own error: the call itself raises it
    if isinstance(whole, str):
        return Found(None, whole)
    for plan in known or _candidates(call, whole):
        if plan.batch.samples(call.tensors) < world_size():
            continue  # it says nothing about larger batches
        with _unseen():
            found = _settled(model, call, plan, whole)
        if isinstance(found, Plan):
            return Found(found)
        why = why or found  # of the likeliest plan
    return Found(None, why)


def _candidates(call: Call, whole: Passed) -> Iterator[Plan]:
    returns_loss = any(one.dim() == 0 and flows for one, flows in zip(whole.tensors, whole.flows, strict=True))
    for batch in batches(call.tensors):
        if returns_loss:
            yield Plan(batch, [], exact_losses=True)
        yield Plan(batch, [])


def _settled(model: SharedModel, call: Call, plan: Plan, whole: Passed) -> Plan | str:
    """The plan with its outputs, or why it does not do."""
    counts = region.uneven_counts(plan.batch.samples(call.tensors), world_size())
    part = _attempt(model, call, lambda: model.own_part(call, plan, counts), gradients=False)
    if failed := _first(part if isinstance(part, str) else ""):
        return failed
    assert isinstance(part, Passed)
    model.copies.add_strays([one for identity, one in part.leaves.items() if identity in whole.leaves])
    outputs = _outputs(part.tensors, whole, counts)
    if isinstance(outputs, str):
        return outputs
    proposed = Plan(plan.batch, outputs, plan.exact_losses, plan.seen or whole.differs)
    found = _attempt(model, call, lambda: model.shared_pass(call, proposed, counts, probes=True)[1])
    why = found if isinstance(found, str) else comparing.difference(found, whole)
    return _first(why) or proposed


def _outputs(parts: list[Tensor], whole: Passed, counts: tuple[int, ...]) -> list[Output] | str:
    """How each tensor comes together. A collective."""
    everyone = communicator.all_gather_object([part.cpu() for part in parts])
    if any(len(one) != len(whole.tensors) for one in everyone):
        return "a part of the batch gives other outputs than the whole one"
    found: list[Output] = []
    for index, (one, flows) in enumerate(zip(whole.tensors, whole.flows, strict=True)):
        output = output_of([parts[index].to(one.device) for parts in everyone], one, flows, counts)
        if isinstance(output, str):
            return output
        found.append(output)
    return found


class _Raised(str):
    """What the model said of a batch."""


def _attempt(
    model: SharedModel, call: Call, compute: Callable[[], list[Tensor]], gradients: bool = True
) -> Passed | str:
    """A pass that leaves no trace, or why there is none."""
    with put_back(model.model) as state, OneRow():
        try:
            tensors = compute()
        except Unknown as unknown:
            return f"it returns {unknown}"
        except RanksParted:
            raise
        except Exception as error:  # whatever a model says of a part of its batch, or of a whole one
            return _Raised(f"it raises {type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
        leaves = leaves_past(tensors)
        wanted = {id(one): one for one in (*model.copies.parameters(), *call.tensors) if one.requires_grad} | leaves
        with region.whole_batch():  # which is no backward pass of the script's
            found = comparing.gradients_of(tensors, wanted) if gradients else {}
        flows = [one.requires_grad for one in tensors]
        return Passed([one.detach() for one in tensors], flows, found, leaves, state.changed())


def _in_whole(model: SharedModel, call: Call) -> list[Tensor]:
    changed = Watched(model.model, model.copies)
    outputs = call.function(*call.args, **call.kwargs)
    return [*tensors_in(outputs), *changed.now()]


def _first(said: str) -> str:
    """What the first rank says that says anything. A collective."""
    return next((one for one in communicator.all_gather_object(str(said)) if one), "")


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Nothing is printed once more, and the script's random numbers go on as if nothing had been drawn."""
    with contextlib.redirect_stdout(io.StringIO()), kept(), region.comparing():
        yield
