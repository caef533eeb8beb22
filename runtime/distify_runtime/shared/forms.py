"""Which plan a call follows: one for each form of arguments, and for each way in which their sizes may matter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from distify_runtime import communicator
from distify_runtime.environment import world_size
from distify_runtime.members import parts_of
from distify_runtime.output import note
from distify_runtime.shared import finding, magnified
from distify_runtime.shared.check import Traces
from distify_runtime.shared.decided import Decided
from distify_runtime.shared.graph import Computed, Operation
from distify_runtime.shared.messages import RanksParted, apart, failures
from distify_runtime.shared.plans import Call, Plan
from distify_runtime.shared.proposals import Near
from distify_runtime.shared.readings import Readings, of_those_there, readings_differ_at, without_what_is_new
from distify_runtime.shared.region import Parted, even_counts
from distify_runtime.shared.state import Before, State
from distify_runtime.shared.streams import kept, rewinding, take_back_draws

if TYPE_CHECKING:
    from distify_runtime.shared.models import SharedModel

#: Calls of a model, counted from 1, at which a plan that holds is checked once more.
CHECKED_CALLS = (2, 10, 100, 1000)
#: So many calls without gradients are each checked, where a value has been taken for a mean or sum of the parts'.
EACH_CALL = 4
_CHANCE = "it does so by chance, and what it computes then was not compared"


class _Before:
    """What a pass may have to be taken back to. state: None, where of the model nothing would be put back."""

    def __init__(self, state: State | Before | None, plan: Plan) -> None:
        self.state = state
        self._again = [rewind for one in plan.generators if (rewind := rewinding(one))]

    def put_back(self) -> None:
        if self.state is not None:
            self.state.put_back()
        for rewind in self._again:
            rewind()


class NotInParts(Exception):
    """The outputs of a pass make up no whole, in no way that a check has found. Raised on every rank; says why."""

    def __init__(self, found: finding.Found, why: str) -> None:
        super().__init__(why)
        self.found = found


@dataclass
class Forms:
    """What the calls of a model have shown. None: such calls are computed whole."""

    plans: dict[Any, Plan | None] = field(default_factory=dict)  # by form
    patterns: dict[Any, Plan | None] = field(default_factory=dict)
    decided: dict[Any, Decided] = field(default_factory=dict)  # by form
    shared: int = 0  # calls
    small: int = 0  # calls with fewer samples than there are ranks, or with one: nothing of them is dealt out
    small_said: bool = False
    why_whole: str = ""  # what was said last of calls that are computed whole
    of_few: bool = False  # that was of a call with too few samples to share

    @property
    def any_shared(self) -> bool:
        return any(self.plans.values())

    def plan(self, model: SharedModel, call: Call) -> tuple[Plan | None, str]:
        """The plan that this call follows; and why there is none, where it has just been found out. Collectives."""
        before = self.small
        plan, why = self._plan(model, call)
        if plan is None and self.small == before and (call.is_small or call.is_of_one):
            self.small += 1  # whatever else was tried of it in vain
        return plan, why

    def _plan(self, model: SharedModel, call: Call) -> tuple[Plan | None, str]:
        form, known = call.form, self.plans.get(call.form)
        if known is not None and not known.batch.fits(call.tensors):
            form = form, "of other sizes"
            known = self.plans.get(form)
        if form not in self.plans and call.is_small:  # what holds for it says nothing about larger batches
            form = form, "of few samples"
            known = self.plans.get(form)
        if known is not None:
            return self._of_pattern(model, call, known, form), ""
        if form in self.plans:
            return None, ""
        if all(batch.samples(call.tensors) < world_size() for batch in call.batches()):
            self._say_small(model, call)
            return None, ""
        found = finding.find_plan(model, call, None, vouched=self._is_vouched(call))
        if found.plan is not None or found.why:
            self.plans[form] = found.plan
        if found.plan is not None:
            self.patterns[form, call.pattern(found.plan.batch)] = found.plan
            self._learn(call, found)
        elif found.why and (form is not call.form or (isinstance(found.why, Near) and not call.trains)):
            self._say_whole(model, call, found.why)
        return found.plan, found.why if form is call.form else ""

    def _of_pattern(self, model: SharedModel, call: Call, first: Plan, form: Any) -> Plan | None:
        if first.batch.samples(call.tensors) < world_size():
            self._say_small(model, call)
            return None
        key = form, call.pattern(first.batch)
        known = self.patterns.get(key)
        if key in self.patterns:
            if known is not None:
                known.followed += 1
            if known is None or not self._is_checked(model.calls, call, known):
                return known
            known = self.patterns[key] = self._again(model, call, known)
            return known
        found = finding.find_plan(model, call, [first])
        self.patterns[key] = found.plan
        if found.plan is None:
            self._say_whole(model, call, found.why)
        else:
            self._learn(call, found)
        return found.plan

    def _say_small(self, model: SharedModel, call: Call) -> None:
        self.small += 1
        if not self.small_said:
            self.small_said = True
            self._say_whole(model, call, "there are fewer samples in it than ranks")

    def _say_whole(self, model: SharedModel, call: Call, why: str) -> None:
        self.why_whole, self.of_few = why, call.is_of_one or call.is_small
        if model.depth and call.is_of_one:
            return  # so it is said of the model
        shapes = ", ".join(str(tuple(one)) for one in call.sizes)
        parts = (
            "; its parts are shared where they are given more" if call.is_of_one and any(parts_of(model.model)) else ""
        )
        note(f"{model.name}: calls like this one, with shapes {shapes}, are computed whole by every rank: {why}{parts}")

    def _again(self, model: SharedModel, call: Call, known: Plan) -> Plan | None:
        """The plan as it is found now. It has been found for such calls before: nothing may have changed."""
        decided = self._decided(call)
        found = finding.find_plan(model, call, [known])
        if found.plan is None and not decided.verdict(found.read):
            found = finding.find_plan(model, call, [known], even_counts_of(call, known))
            if found.plan is None and not decided.verdict(found.read):
                return known  # what this very batch decides: that is looked at when its pass is over
        if found.plan is not None:
            self._learn(call, found)
        elif isinstance(found.why, Near) or (known.guesses and not call.trains and known.followed <= EACH_CALL):
            self._say_whole(model, call, found.why)
        elif model.calls > 2 and magnified.magnifies(model, call):
            self._say_whole(model, call, magnified.WHY)
        elif model.calls > 2:  # until then, nothing can have drifted
            raise RanksParted(
                f"distify: {model.name} no longer computes in parts what it computes of a whole batch (call "
                f"{model.calls}; {found.why}). What it keeps from one call to the next may have drifted since the last "
                "check. Give it to one process, or leave `rt.data_parallel` away for it"
            )
        return found.plan

    def _is_checked(self, calls: int, call: Call, plan: Plan) -> bool:
        """What was guessed is checked without gradients, too: nothing else tells that it was a mean by chance."""
        if not call.trains:
            return plan.guesses and (plan.followed <= EACH_CALL or _is_power_of_2(plan.followed))
        often = plan.guesses or not plan.seen or self._decided(call).differing_numbers
        return calls in CHECKED_CALLS or (often and _is_power_of_2(calls))

    def _is_vouched(self, call: Call) -> bool:
        """Whether gradients have shown, in calls of the same arguments, that what comes out is a mean or a sum."""
        shown = [one.outputs for form, one in self.plans.items() if one is not None and form[:2] == call.form[:2]]
        return any(output.dim == -1 and not output.guessed for outputs in shown for output in outputs)

    # ---- what passes decide

    def _decided(self, call: Call) -> Decided:
        return self.decided.setdefault(call.form, Decided())

    def _learn(self, call: Call, found: finding.Found) -> None:
        """That a call was compared, and its parts make up the whole."""
        decided = self._decided(call)
        for read in (found.read, *found.read_besides):
            decided.learn(read, True)
        decided.operations |= found.plan.operations if found.plan is not None else set()

    def new_in(self, call: Call, computed: Computed) -> frozenset[Operation]:
        """What no call of this form has computed that was compared."""
        return self._decided(call).new_in(computed)

    def kept(self, model: SharedModel, call: Call, plan: Plan) -> _Before:
        """What a pass may have to be taken back to: if it reads something, or counts, it may decide by that."""
        if self._decided(call).reads:
            return _Before(State(model.model, parameters=False), plan)
        return _Before(plan.counted.now(model.model) if plan.counted else None, plan)

    def stands(self, model: SharedModel, call: Call, plan: Plan, readings: Readings, before: _Before) -> bool:
        """Whether a pass in which the ranks have read this gave what the whole batch gives; else `before` is put back.

        Collectives. Raises RanksParted where the pass cannot be taken back, NotInParts where it computes what no other
        one that was compared has computed, and that is of no parts.
        """
        decided = self._decided(call)
        stands = decided.seen(readings.everyone)
        if stands is None:
            mixture = readings.mixture()
            read, new = without_what_is_new(mixture), readings.new
            stands = decided.verdict(read) if read else True
            if stands is None:
                found = finding.find_plan(model, call, [plan], even_counts_of(call, plan))
                stands = found.plan is not None
                if found.plan is None:
                    _say_decided(model, readings_differ_at(mixture), found, before)
                else:
                    self._learn(call, found)
                    new -= found.plan.operations
            if stands and read != mixture:
                self._compare_what_is_new(model, call, plan, new, before)
            decided.learn(read, stands, readings.everyone)
        if not stands:
            take_back_draws()
            before.put_back()
        self.shared += stands
        return stands

    def _compare_what_is_new(
        self, model: SharedModel, call: Call, plan: Plan, new: frozenset[Operation], before: _Before
    ) -> None:
        """Of a pass in which some rank computes what no pass that was compared has: on this one, these. Collectives.

        By a flag, a number, by chance the script has come to something else; so it may in calls of other forms.
        """
        if not any(communicator.all_gather_object(bool(new))):
            return  # they have been compared by now
        after = self.kept(model, call, plan)
        with kept():
            take_back_draws()  # what is drawn alike decides as in that pass, and so does what it counts
            before.put_back()
            found = finding.find_plan(model, call, [plan], even_counts_of(call, plan), traces=True)
        after.put_back()
        is_compared = found.plan is not None and new <= found.plan.operations
        if not all(communicator.all_gather_object(is_compared)):
            raise NotInParts(
                found, f"from call {model.calls} on it computes otherwise than before: {found.why or _CHANCE}"
            )
        self._learn(call, found)
        for form in [one for one, other in self.plans.items() if one != call.form and other is not None]:
            del self.plans[form]

    def parted(
        self,
        model: SharedModel,
        call: Call,
        plan: Plan,
        readings: Readings,
        before: _Before,
        parted: Parted,
        left: bool,
    ) -> str:
        """A pass whose ranks have come to different collectives: `before` is put back. Why no such call is shared from
        now on, where it does not show what has decided; else empty: those that decide so are computed whole.

        left: whether it has left what cannot be taken back. Collectives. Raises RanksParted where it is chance, or has.
        """
        why = _of_errors(model, parted, left) if parted.failed else f"parts of a batch sum different things ({parted})"
        decided, mixture = self._decided(call), readings.mixture()
        decisive = of_those_there(without_what_is_new(mixture))
        if decided.verdict(mixture) is not False:
            found = finding.find_plan(model, call, [plan], even_counts_of(call, plan))
            if found.plan is not None:
                raise RanksParted(apart(str(parted)))
            if not any(len(outcomes) > 1 for *_, outcomes in decisive):
                self.no_longer(model, call, NotInParts(found, why), before)
                return why
            _say_decided(model, readings_differ_at(decisive), found, before)
            decided.learn(mixture, False)
        take_back_draws()
        before.put_back()
        return ""

    def no_longer(self, model: SharedModel, call: Call, error: NotInParts, before: _Before) -> None:
        """Calls of this form are whole from now on, and the model is as it was before this one, or RanksParted."""
        _check_can_be_taken_back(model, f"is not made up of parts: {error}", error.found, before)
        self.plans[call.form] = None
        take_back_draws()
        before.put_back()
        if not call.trains:
            self._say_whole(model, call, str(error))


def _is_power_of_2(number: int) -> bool:
    return number & (number - 1) == 0


def even_counts_of(call: Call, plan: Plan) -> tuple[int, ...]:
    return even_counts(plan.batch.samples(call.tensors), world_size())


def _say_decided(model: SharedModel, places: str, found: finding.Found, before: _Before) -> None:
    where = f" (at {places})" if places else ""
    said = f"decides by what is in its part of the batch{where}, otherwise than one process would: {found.why}"
    _check_can_be_taken_back(model, said, found, before)
    note(
        f"{model.name}: where ranks decide differently by their parts of a batch{where}, as in call {model.calls}, it "
        f"is computed whole by every rank: {found.why}"
    )


def _of_errors(model: SharedModel, parted: Parted, left: bool) -> str:
    """What the parts have raised. A collective."""
    told = failures()[parted.failed[0]]
    if any(communicator.all_gather_object(left)):
        raise RanksParted(
            f"distify: {model.name} (call {model.calls}): a part of the batch raises {told}, when it has left in "
            "buffers what cannot be taken back: whether the whole batch would raise that, too, is not seen"
        )
    return f"a part of the batch raises {told}"


def _check_can_be_taken_back(model: SharedModel, said: str, found: finding.Found, before: _Before) -> None:
    """Raises RanksParted where a pass has left what cannot be taken back."""
    if found.traces & Traces.ELSEWHERE or (found.traces and before.state is None):
        raise RanksParted(
            f"distify: {model.name} (call {model.calls}) {said}. And it has left there what cannot be taken back. "
            "Share the parts of the model in its place (`rt.data_parallel(model.part)`)"
        )
