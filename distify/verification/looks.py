"""Short runs of both besides the one that is compared step by step: with worker processes, and as chance has it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from distify_runtime.trace.chance import noise
from distify_runtime.trace.compare import Check, Difference, Tolerance, compare
from distify_runtime.trace.draws import load_draws
from distify_runtime.trace.traces import Trace

from distify.verification.copies import make_copies
from distify.verification.pairs import Pair
from distify.verification.running import AnotherWay, Failed, Plan, run_converted, run_original

#: Worker processes of each loader that asks for any.
WORKERS = 2
_STEPS_WITH_WORKERS, _STEPS_WITH_CHANCE = 6, 8
_STEPS_WITH_ROUNDING = 4
#: Of what is compared, what can be another with workers, or in other precision.
_OF_STEPS = ("optimizer steps", "parameters", "ranks agree", "samples")
_MIXED = "mixed precision"
#: bfloat16 keeps eight bits; and a mistake changes a step by half of it, or doubles it.
_ROUNDED = Tolerance(1e-6, 0.2, 0.2)
#: Of calls of layers: a shared pass may call some more.
_SAME_PART = 0.1


@dataclass(frozen=True)
class Looks:
    """Who is looked at, and where. `shared`: forward passes are, so that last batches are not filled up."""

    pair: Pair
    plan: Plan
    folder: Path
    horovod: bool
    shared: bool

    def runs(self, name: str, plan: Plan) -> tuple[Trace, list[Trace]]:
        """Of both. Raises Failed for the converted script, and _Unfit for the original."""
        base, dist = make_copies(self.pair, self.folder / name)
        try:
            original = run_original(plan, base, self.logs(name, 0), filled_up=not self.shared)
        except AnotherWay as other:
            if other.plan.dtype != plan.dtype:  # what it is compared by is of these types
                raise _Unfit(other.reason, other.lines) from None
            shutil.rmtree(self.folder / name)
            shutil.rmtree(self.logs(name, 0))
            return self.runs(name, other.plan)
        except Failed as failed:
            raise _Unfit(failed.reason, failed.lines) from None
        return original, run_converted(plan, dist, self.logs(name, 1), self.horovod)

    def logs(self, name: str, converted: int) -> Path:
        return self.folder / f"{name}.{'converted' if converted else 'original'}.logs"


@dataclass(frozen=True)
class Seen:
    """`check`: None where there was nothing to look at. `note`: why not, where the original failed."""

    check: Check | None = None
    note: str = ""
    last_lines: tuple[str, ...] = ()


class _Unfit(Failed):
    """The original cannot be run so."""


def with_workers(looks: Looks, tolerance: Tolerance, traces: Sequence[Trace]) -> Seen:
    """The same comparison over a few steps, if a loader asks for workers: traces, of runs without."""
    if not any(trace.workers for trace in traces):
        return Seen()
    plan = replace(looks.plan, steps=_STEPS_WITH_WORKERS, workers=WORKERS)
    try:
        original, ranks = looks.runs("workers", plan)
    except Failed as failed:
        return _of_failure(failed, "workers", f"with {WORKERS} workers for each loader that asks for any")
    checks = [check for check in compare(original, ranks, tolerance) if check.name in _OF_STEPS]
    parted = next((check.difference for check in checks if check.difference), None)
    if parted is not None:
        return Seen(Check("workers", replace(parted, message=f"with {WORKERS} workers: {parted.message}")))
    gap = next((check.largest for check in checks if check.name == "parameters"), None)
    return Seen(Check("workers", found=f"{len(original.steps)} steps with {WORKERS} for each loader", largest=gap))


def with_rounding(looks: Looks, traces: Sequence[Trace]) -> Seen:
    """The same comparison, with autocast as the script has it: each rank rounds by itself."""
    if not any(trace.mixed for trace in traces):
        return Seen()
    plan = replace(looks.plan, steps=_STEPS_WITH_ROUNDING, dtype="float32", mixed=True)
    try:
        original, ranks = looks.runs("mixed", plan)
    except Failed as failed:
        return _of_failure(failed, _MIXED, "in mixed precision")
    wanted = _rounded(original)
    for rank, trace in enumerate(ranks):
        if abs(_rounded(trace) - wanted) > _SAME_PART:
            message = f"rank {rank} calls {_rounded(trace):.0%} of its layers under autocast, the original {wanted:.0%}"
            return Seen(Check(_MIXED, Difference(message, hint="autocast has to be entered where the model is called")))
    checks = [check for check in compare(original, ranks, _ROUNDED) if check.name in _OF_STEPS]
    parted = next((check.difference for check in checks if check.difference), None)
    if parted is not None:
        return Seen(Check(_MIXED, replace(parted, message=f"under autocast: {parted.message}")))
    gap = next((check.largest for check in checks if check.name == "parameters"), None)
    return Seen(Check(_MIXED, found=f"{len(original.steps)} steps, {wanted:.0%} of calls under autocast", largest=gap))


def _rounded(trace: Trace) -> float:
    return trace.rounded[0] / max(1, trace.rounded[1])


def with_chance(looks: Looks, traces: Sequence[Trace]) -> Seen:
    """What both draw, if they draw anything for samples."""
    if not any(trace.drawn for trace in traces):
        return Seen()
    plan = replace(looks.plan, chance=True, steps=_STEPS_WITH_CHANCE, each_sample=False, workers=WORKERS)
    try:
        looks.runs("chance", plan)
    except Failed as failed:
        return _of_failure(failed, "noise", "with its own random numbers")
    drawn = [load_draws(looks.logs("chance", 1) / f"{rank}.draws") for rank in range(plan.ranks)]
    return Seen(noise(load_draws(looks.logs("chance", 0) / "0.draws"), drawn, looks.shared))


def _of_failure(failed: Failed, name: str, how: str) -> Seen:
    if isinstance(failed, _Unfit):
        return Seen(note=f"{name}: not looked at, since {how}, {failed.reason}")
    return Seen(Check(name, Difference(f"{how}, {failed.reason}")), last_lines=tuple(failed.lines))
