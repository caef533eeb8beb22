"""Parts against the whole: a plan is followed only where a shared pass gives what a whole one gives.

The whole batch goes through the model once more on every rank. Outputs, buffers and attributes that the pass changed,
and the gradients of one random projection of the outputs are compared. The model's state, random numbers and `.grad`
stay as they are. It costs about two forward and backward passes of the whole batch each time, and memory for the
parameters three times more: as they were, and the gradients of both passes. Where something differs that may be
rounding, the same is done once more in double precision, which tells.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import io
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from distify_runtime import communicator
from distify_runtime.environment import world_size
from distify_runtime.shared import comparing, escapes, hearing, region, surroundings
from distify_runtime.shared.attributes import Watched
from distify_runtime.shared.comparing import Apart, Both, Doubtful, Outside, Passed
from distify_runtime.shared.copies import made_by_hooks
from distify_runtime.shared.doubled import in_double
from distify_runtime.shared.draws import Dims, OneRow, Side, batch_dims
from distify_runtime.shared.escapes import Births
from distify_runtime.shared.graph import flows, leaves_past
from distify_runtime.shared.plans import Call, Plan
from distify_runtime.shared.proposals import outputs_of
from distify_runtime.shared.readings import Mixture, Readings, mixture_of
from distify_runtime.shared.related import Related
from distify_runtime.shared.state import WRITTEN, State, put_back
from distify_runtime.shared.streams import Rewound, kept, positions
from distify_runtime.shared.structure import Unknown, tensors_in, told
from distify_runtime.shared.surroundings import Surroundings
from distify_runtime.shared.undivided import Undivided, while_checking

if TYPE_CHECKING:
    from distify_runtime.shared.models import SharedModel

#: The tensors that a pass gives, and what it returns beside them.
Given = tuple[list[Tensor], Any]
_DIFFERENT = "the ranks compute different things for their parts of the batch"
_TOO_MUCH = (torch.cuda.OutOfMemoryError, MemoryError)


class Traces(enum.Flag):
    """What is not as it was after a pass: in the model's modules, but for its parameters, and elsewhere."""

    NONE = 0
    MODULES = enum.auto()
    ELSEWHERE = enum.auto()


class Check:
    """One call, in parts and whole."""

    def __init__(
        self, model: SharedModel, call: Call, counts: tuple[int, ...] | None, vouched: bool, is_double: bool = False,
        turn: int = 0, side: Side = Side.ANY,
    ) -> None:  # fmt: skip
        """is_double: what there is to compare is in double precision, under `in_double`. turn, side: of `OneRow`."""
        self._turn, self._side = turn, side
        self._is_double = is_double
        self._model, self._call, self._counts, self._vouched = model, call, counts, vouched
        self._readings = Readings()
        self.read: Mixture = frozenset()
        self.has_sides = False  # of `OneRow`, on any rank
        self._halfway = Traces.NONE
        self._wholes: dict[tuple[Dims, ...], Passed | str] = {}
        self._draws, self._numbers = Rewound(), Surroundings(model.model).numbers()
        # Gradients flow to these and no further: what has made them is for the script's backward pass.
        made = made_by_hooks(model.model).items()
        self._made = {name: one.detach().clone().requires_grad_() for name, one in made}

    def whole(self, along: tuple[Dims, ...]) -> Passed | str:
        """The whole batch, with what is drawn alike along these dimensions."""
        if along not in self._wholes:
            with region.whole_batch():
                try:
                    self._wholes[along] = self._attempt(self._in_whole, along)
                except _TOO_MUCH:
                    self._wholes[along] = OutOfMemory("it needs more memory than there is for a whole batch")
        return self._wholes[along]

    def settled(self, plan: Plan) -> Plan | str:
        """The plan with its outputs, or why it does not do."""
        counts = self._counts or region.uneven_counts(plan.batch.samples(self._call.tensors), world_size())
        along: tuple[Dims, ...] = ()
        both = self._both(plan, counts, along)
        dims = both.dims
        if dims is not None and any(dims):  # now that it shows where the batch is in what is drawn
            along = tuple(dims)
            both = self._both(plan, counts, along)
        whole, part, outside = both.whole, both.part, both.outside
        if both.failed or isinstance(part, str):
            return both.failed or _DIFFERENT
        if dims is None or isinstance(whole, str):
            return "it draws other random numbers for a part of the batch than for the whole one"
        judged = self._judged(whole, outside, counts)
        everyone = communicator.all_gather_object((judged, [one.cpu() for one in part.tensors]))
        why, names, sizes, seen = everyone[0][0]  # what is equal to rounding is for one to say
        if why or (names and (why := self._following(names, outside, lambda: self._part(plan, counts, along)))):
            return why
        self._model.copies.add_strays([one for identity, one in part.leaves.items() if identity in whole.leaves])
        parts, sums = [one for _, one in everyone], self._model.sums_inside
        outputs = _agreed(outputs_of(parts, whole, counts, plan.outputs, self._vouched, sums))
        told_apart: Plan | None = None
        if isinstance(outputs, Apart) and isinstance(doubled := self._in_double(plan), Plan):
            told_apart, outputs = doubled, doubled.outputs
        if isinstance(outputs, str):
            return outputs
        del everyone, parts  # not to be held through the next pass
        if len(plan.outputs) == len(outputs):
            outputs = [one.as_ragged_as(before) for one, before in zip(outputs, plan.outputs, strict=True)]
        proposed = replace(plan, outputs=outputs, seen=plan.seen or seen, sizes=tuple(sizes.values()))
        proposed.agreed, proposed.course, proposed.operations, proposed.counted = {}, [], set(), whole.counted
        proposed.generators = whole.generators
        found = self._attempt(lambda: (self._shared_pass(proposed, counts), None), along)
        why = _first((found or _DIFFERENT) if isinstance(found, str) else self._differing(found, whole, plan))
        if isinstance(why, Apart):
            doubled = told_apart or self._in_double(plan)
            proposed.in_double = True
            is_rounding = isinstance(doubled, Plan) or (isinstance(why, Doubtful) and doubled is None)
            why = "" if is_rounding else str(why)
        if not (why or self._is_double):
            self._model.draws.learn(whole.moved, both.moved)
            self._model.draws.learn_of_tensors(dims, "torch" not in whole.moved and not whole.drops)
        return why or proposed

    def _differing(self, found: Passed, whole: Passed, plan: Plan) -> str:
        why = comparing.difference(found, whole)
        return why or ("" if plan.in_double or self._is_double else comparing.doubt(found, whole))

    def _in_double(self, plan: Plan) -> Plan | str | None:
        """What becomes of the plan in double precision: if it does there, what differs else is rounding. A collective.

        The plan with its outputs, or why it does not do. None: this is double precision, or there is none.
        """
        if self._is_double:
            return None
        self._draws.again()  # from where on the other one draws: the same place on all ranks
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(in_double(self._model.model, self._model.copies.parameters()))
                check = Check(
                    self._model, self._call.doubled(), self._counts, self._vouched, True, self._turn, self._side
                )
                whole = check.whole(())
                is_there = isinstance(whole, Passed) and whole.precision is None
            except Exception:  # there is no such precision, no memory for it, or none of a tensor of this kind
                is_there = False
            found = check.settled(plan) if all(communicator.all_gather_object(is_there)) else None
            self._model.copies.forget()
        return found

    def _both(self, plan: Plan, counts: tuple[int, ...], along: tuple[Dims, ...]) -> Both:
        """A collective."""
        whole, part = self.whole(along), self._part(plan, counts, along)
        why = str(next((one for one in (whole, part) if isinstance(one, str)), ""))
        told = ([], {}, Outside()) if isinstance(part, str) else (part.draws, part.moved, part.outside)
        sides = isinstance(whole, Passed) and whole.has_sides
        everyone = communicator.all_gather_object((*told, self._readings.outcomes(), sides, why))
        draws, moved, outside, read, have_sides, failed = (list(one) for one in zip(*everyone, strict=True))
        self.has_sides |= any(have_sides)
        self.read = mixture_of(read)
        dims = batch_dims(draws, [] if isinstance(whole, str) else whole.draws)
        return Both(whole, part, dims, moved, outside, next(filter(None, failed), ""))

    def _shared_pass(self, plan: Plan, counts: tuple[int, ...]) -> list[Tensor]:
        return self._model.shared_pass(self._call, plan, counts, Readings(), True)[1]

    def _part(self, plan: Plan, counts: tuple[int, ...], along: tuple[Dims, ...]) -> Passed | str:
        self._readings = readings = Readings()
        return self._attempt(lambda: self._model.own_part(self._call, plan, counts, readings), along, gradients=False)

    def traces(self, whole: Passed) -> Traces:
        """What the whole batch left behind, and some rank's part, and a check took back. A collective."""
        first, *others = communicator.all_gather_object((self._left(whole.state, whole.outside), self._halfway))
        found: Traces = functools.reduce(operator.or_, (halfway for _, halfway in others), first[0] | first[1])
        return found

    def _left(self, changed: dict[str, Tensor], outside: Outside) -> Traces:
        modules = Surroundings(self._model.model).numbers_of_modules() | outside.of_modules
        is_parameter = [name.endswith(WRITTEN) for name in changed]
        inside = not all(is_parameter) or not modules.isdisjoint(outside.numbers)
        elsewhere = any(is_parameter) or outside.tensors or not outside.numbers.keys() <= modules
        return (Traces.MODULES if inside else Traces.NONE) | (Traces.ELSEWHERE if elsewhere else Traces.NONE)

    def _judged(
        self, whole: Passed, outside: list[Outside], counts: tuple[int, ...]
    ) -> tuple[str, list[str], surroundings.Sizes, bool]:
        """What is left outside: why it cannot be, numbers that may follow from the part, sizes; and if outputs tell."""
        why = escapes.escaped([one.tensors for one in outside], whole.outside.tensors, whole.precision)
        if not why and any(one.returned != whole.outside.returned for one in outside):
            why = "it returns something else than tensors that is not the same for a part of the batch"
        if not why and any(one.drawn_alike != whole.outside.drawn_alike for one in outside):
            why = "what is drawn alike on all ranks, as for the whole batch, is drawn for each of its samples"
        numbers = self._numbers | whole.outside.numbers, [self._numbers | one.numbers for one in outside]
        sizes = surroundings.sizes(self._model.model, *numbers, counts)
        return why, [name for name in surroundings.differing(*numbers) if name not in sizes], sizes, whole.differs

    def _following(self, names: list[str], everyone: list[Outside], again: Callable[[], Passed | str]) -> str:
        """Which of these numbers follows from the part of the batch, in words. A collective."""
        second = again()  # what the time of day has to do with is another number each time
        mine, other = everyone[communicator.rank()].numbers, {} if isinstance(second, str) else second.outside.numbers
        stay = [name for name in names if mine.get(name) == other.get(name)]
        return _first(f"it keeps a number of its part of the batch in `{stay[0]}`" if stay else "")

    def _in_whole(self) -> Given:
        changed = Watched(self._model.model, self._model.copies)
        outputs, writes = self._call.repeated()
        if writes:
            raise Unknown("what it has written into its arguments")
        return [*tensors_in(outputs), *changed.now()], told(outputs)

    def _attempt(self, compute: Callable[[], Given], along: tuple[Dims, ...], gradients: bool = True) -> Passed | str:
        """A pass that leaves no trace, or why there is none."""
        self._draws.again()
        began, hooks = positions(), hearing.on_tensors()
        with (
            _put_back(self._model.model, self._call) as (state, around),
            Births() as born,
            OneRow(along, self._turn, self._side) as drawn,
        ):
            vars(self._model.model).update(self._made)
            inputs = self._inputs()
            try:
                with while_checking():
                    tensors, returned = compute()
            except Unknown as unknown:
                return f"it returns {unknown}"
            except (Related, Undivided) as found_out:
                return str(found_out)
            except region.Parted:
                numbers = surroundings.changed(self._numbers, around.numbers())
                self._halfway |= self._left(state.changed(), Outside([], numbers, around.numbers_of_modules()))
                return Raised("")  # where one has failed, it says with what
            except _TOO_MUCH:
                raise
            except Exception as error:  # whatever a model says of a part of its batch, or of a whole one
                return Raised(f"it raises {type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
            if state.makes_parameters():
                return Unmade("it makes parameters in its first pass")
            if trained := [name for name, one in state.replaced() if one.requires_grad]:
                return f"it puts another parameter in the place of `{trained[0]}`"
            numbers = surroundings.changed(self._numbers, around.numbers())
            moved = {name: one for name, one in positions().items() if one != began[name]}
            leaves = born.without(leaves_past(tensors, inputs))
            wanted = {id(one): one for one in inputs} | leaves
            found: dict[int, Tensor | None] = {}
            if gradients:
                is_heard = hearing.is_heard(self._model.model, hooks)
                before = self._kept(around, state, born) if is_heard else None
                with region.whole_batch():  # which is no backward pass of the script's
                    found = comparing.gradients_of(tensors, wanted)
                if is_heard and self._kept(around, state, born, found.values()) != before:
                    return "a hook keeps what it is given of gradients inside of it: those of a part of the batch"
            flowing = [flows(one) for one in tensors]
            tensors, changed = [one.detach() for one in tensors], state.changed()
            ours = (*self._call.tensors, *self._model.copies.made())
            known = (*tensors, *found.values(), *leaves.values(), *changed.values(), *ours)
            left = born.left((one for one in known if one is not None), self._model.model)
            left, counted = [*left, *around.filled_with(tensors)], state.counted()
            outside = Outside(left, numbers, around.numbers_of_modules(), returned, tuple(drawn.alike))
            return Passed(
                tensors,
                flowing,
                found,
                leaves,
                changed,
                drawn.shapes,
                drawn.drops,
                drawn.has_sides,
                moved,
                outside,
                state.spreads(),
                counted if counted is not None and counted.is_all(self._model.model, numbers) else None,
                born.precision,
                around.drawn_from(),
            )

    def _kept(
        self, around: Surroundings, state: State, born: Births, found: Iterable[Tensor | None] = ()
    ) -> tuple[Any, ...]:
        """What hooks may have changed in a backward pass that has `found` gradients: numbers, attributes of modules,
        tensors that are held."""
        left = [one.where for one in born.left((one for one in found if one is not None), self._model.model)]
        return surroundings.changed(self._numbers, around.numbers()), state.changed().keys(), left

    def _inputs(self) -> list[Tensor]:
        return [one for one in (*self._model.copies.parameters(), *self._call.tensors) if one.requires_grad]


@contextlib.contextmanager
def _put_back(model: nn.Module, call: Call) -> Iterator[tuple[State, Surroundings]]:
    """The model, and what can be reached from it, as they were, after what is done under `with`."""
    around = Surroundings(model, (*call.args, *call.kwargs.values()))
    with put_back(model) as state:
        try:
            yield state, around
        finally:
            around.put_back()


class Raised(str):
    """What the model said of a batch."""


class Unmade(Raised):
    """It is not what it will be: this call, which is computed whole, makes it."""


class OutOfMemory(Raised):
    """There is none for as many samples."""


_T = TypeVar("_T")


def _agreed(mine: _T) -> _T:
    """Rank 0's: what one takes for equal, another may not, if it is a matter of rounding. A collective."""
    found: _T = communicator.all_gather_object(mine)[0]
    return found


def _first(said: str) -> str:
    """The gravest that a rank says, and of those alike what the first one does. A collective."""
    return min(filter(None, communicator.all_gather_object(said)), key=_may_be_rounding, default="")


def _may_be_rounding(why: str) -> int:
    return isinstance(why, Apart) + isinstance(why, Doubtful)


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Nothing is printed once more, and the script's random numbers go on as if nothing had been drawn."""
    with contextlib.redirect_stdout(io.StringIO()), kept(), region.comparing():
        yield
