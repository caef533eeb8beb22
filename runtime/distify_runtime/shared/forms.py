"""Which plan a call follows: one for each form of arguments, and for each way in which their sizes may matter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from distify_runtime.environment import world_size
from distify_runtime.output import note
from distify_runtime.shared import check
from distify_runtime.shared.messages import RanksParted
from distify_runtime.shared.plans import Call, Plan

if TYPE_CHECKING:
    from distify_runtime.shared.models import SharedModel

#: Calls of a model, counted from 1, at which a plan that holds is checked once more.
CHECKED_CALLS = (2, 10, 100, 1000)


@dataclass
class Forms:
    """What the calls of a model have shown. None: such calls are computed whole."""

    plans: dict[Any, Plan | None] = field(default_factory=dict)  # by form
    patterns: dict[Any, Plan | None] = field(default_factory=dict)

    @property
    def any_shared(self) -> bool:
        return any(self.plans.values())

    def plan(self, model: SharedModel, call: Call) -> tuple[Plan | None, str]:
        """The plan that this call follows; and why there is none, where it has just been found out. Collectives."""
        form, known = call.form, self.plans.get(call.form)
        if known is not None and not known.batch.fits(call.tensors):
            form = form, "of other sizes"
            known = self.plans.get(form)
        if known is not None:
            return self._of_pattern(model, call, known, form), ""
        if form in self.plans:
            return None, ""
        found = check.find_plan(model, call, None)
        if found.plan is not None or found.why:
            self.plans[form] = found.plan
        if found.plan is not None:
            self.patterns[form, call.pattern(found.plan.batch)] = found.plan
        elif form is not call.form and found.why:
            _say_whole(model, call, found.why)
        return found.plan, found.why if form is call.form else ""

    def _of_pattern(self, model: SharedModel, call: Call, first: Plan, form: Any) -> Plan | None:
        if first.batch.samples(call.tensors) < world_size():
            return None
        key = form, call.pattern(first.batch)
        known = self.patterns.get(key)
        if key in self.patterns:
            if known is None or not _is_checked(model.calls, call, known):
                return known
            known = self.patterns[key] = _again(model, call, known)
            return known
        found = check.find_plan(model, call, [first])
        self.patterns[key] = found.plan
        if found.plan is None:
            _say_whole(model, call, found.why)
        return found.plan


def _again(model: SharedModel, call: Call, known: Plan) -> Plan | None:
    """The plan as it is found now. It has been found for such calls before: nothing may have changed."""
    found = check.find_plan(model, call, [known])
    if found.plan is None and model.calls > 2:  # until then, nothing can have drifted
        raise RanksParted(
            f"distify: {model.name} no longer computes in parts what it computes of a whole batch (call "
            f"{model.calls}; {found.why}). What it keeps from one call to the next may have drifted since the last "
            "check. Give it to one process, or leave `rt.data_parallel` away for it"
        )
    return found.plan


def _say_whole(model: SharedModel, call: Call, why: str) -> None:
    shapes = ", ".join(str(tuple(one)) for one in call.sizes)
    note(f"{model.name}: calls like this one, with shapes {shapes}, are computed whole by every rank: {why}")


def _is_checked(calls: int, call: Call, plan: Plan) -> bool:
    is_a_power_of_2 = calls & (calls - 1) == 0
    return call.trains and (calls in CHECKED_CALLS or (is_a_power_of_2 and not plan.seen))
