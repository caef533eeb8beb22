"""Runs an original and its conversion, as often as it takes to compare like with like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from distify_runtime.trace.compare import Check, Difference, Tolerance, apart, compare
from distify_runtime.trace.traces import Trace

from distify.errors import DistifyError
from distify.verification.copies import Copy, make_copies
from distify.verification.looks import Looks, with_chance, with_rounding, with_workers
from distify.verification.pairs import Pair
from distify.verification.running import AnotherWay, Failed, Plan, longer, looked_for, run_converted, run_original

#: Of a difference, that the original goes apart from itself where its parameters change by their last digits but a few.
_AS_FAR = 0.1
_TOLERANCES = {"float64": Tolerance(1e-12, 1e-5, 1e-6), "float32": Tolerance(1e-6, 1e-2, 1e-2)}


@dataclass(frozen=True)
class Compared:
    """`notes`: what is to be said of the runs; `last_lines`: of a converted script that failed."""

    original: Trace
    checks: Sequence[Check]
    plan: Plan
    notes: tuple[str, ...] = ()
    last_lines: tuple[str, ...] = ()
    ranks: Sequence[Trace] = ()


def run_and_compare(pair: Pair, plan: Plan, copies: tuple[Copy, Copy], folder: Path, horovod: bool) -> Compared:
    """Raises DistifyError where the original fails, or what the user can change ends the conversion."""
    original, plan, dist, notes = _run_original(pair, plan, copies, folder)
    if original.later:
        original, plan = _run_longer(pair, plan, original, folder)
        notes = (*notes, *_not_begun(original))
    if original.missed:
        notes = (*notes, f"the original: {looked_for(plan, copies[0], original.missed)}")
    if not original.steps and not original.saves:
        raise DistifyError(f"{pair.original.path}: took no optimizer step; does it need arguments (behind --)?")
    try:
        traces = run_converted(plan, dist, folder / "converted.logs", horovod)
        if any(trace.shares_forwards for trace in traces):
            notes = (*notes, *traces[0].whole)
            done = _compare_shared(pair, plan, original, traces, folder, horovod, notes)
            done = _as_far_as_it_follows_itself(done, pair, folder, horovod, filled_up=False)
            return _looked_at(done, pair, done.ranks, folder, horovod)
    except Failed as failed:
        _check_input(failed, pair)
        return Compared(original, [Check("it runs", Difference(failed.reason))], plan, notes, tuple(failed.lines))
    done = Compared(original, compare(original, traces, _TOLERANCES[plan.dtype]), plan, notes, ranks=traces)
    done = _as_far_as_it_follows_itself(done, pair, folder, horovod, filled_up=True)
    return _looked_at(done, pair, done.ranks, folder, horovod)


def _as_far_as_it_follows_itself(done: Compared, pair: Pair, folder: Path, horovod: bool, filled_up: bool) -> Compared:
    """Up to the step before parameters part, if the original goes apart from itself there, once it is nudged.

    BatchNorm of few values, steps that are too long, games: what ranks round is soon as large as a mistake.
    """
    parted = next((one.difference for one in done.checks if one.name == "parameters"), None)
    if parted is None or parted.step is None or parted.step < 3 or parted.largest is None:
        return done
    try:
        nudged = run_original(replace(done.plan, nudged=True), make_copies(pair, folder / "nudged")[0],
                              folder / "nudged.logs", filled_up)  # fmt: skip
        if apart(nudged, done.original, parted.step) < _AS_FAR * parted.largest:
            return done
        plan = replace(done.plan, steps=parted.step - 1)
        base, dist = make_copies(pair, folder / "followed")
        original = run_original(plan, base, folder / "followed.logs", filled_up)
        traces = run_converted(plan, dist, folder / "followed_converted.logs", horovod)
    except Failed:
        return done
    note = (
        f"from step {parted.step} on the original itself goes as far apart where its parameters change by their tenth "
        "digit: that the ranks round in another order is enough for that, so that the steps before it were compared"
    )
    checks = compare(original, traces, _TOLERANCES[plan.dtype])
    return Compared(original, checks, plan, (*done.notes, note), ranks=traces)


def _compare_shared(
    pair: Pair, plan: Plan, original: Trace, traces: list[Trace], folder: Path, horovod: bool, notes: tuple[str, ...]
) -> Compared:
    """Every rank has the original's batches whole, so that last ones are not filled up, and noise need not be one row.

    One row for all samples is a batch that BatchNorm makes zeros of, and by rounding alone what comes next is cut off
    or not (ReLU); where a batch holds its samples several times, a process that stands for ranks counts them once: who
    parts in such a run is run with noise for each sample, and the original for itself.
    """
    if original.filled:
        original = _run_whole(pair, plan, make_copies(pair, folder / "whole")[0], folder / "whole.logs")
    checks = compare(original, traces, _TOLERANCES[plan.dtype])
    if not any(check.difference and check.name in ("parameters", "checkpoints") for check in checks):
        return Compared(original, checks, plan, notes, ranks=traces)
    plan = replace(plan, each_sample=True)
    base, dist = make_copies(pair, folder / "each_sample")
    original = _run_whole(pair, plan, base, folder / "each_sample.logs")
    traces = run_converted(plan, dist, folder / "each_sample_converted.logs", horovod)
    return Compared(original, compare(original, traces, _TOLERANCES[plan.dtype]), plan, notes, ranks=traces)


def _looked_at(done: Compared, pair: Pair, traces: Sequence[Trace], folder: Path, horovod: bool) -> Compared:
    """With what short runs of other kinds show, for as long as both are the same."""
    shared = any(trace.shares_forwards for trace in traces)
    looks = Looks(pair, done.plan, folder, horovod, shared)
    workers = partial(with_workers, looks, _TOLERANCES[done.plan.dtype])
    for look in (workers, partial(with_rounding, looks), partial(with_chance, looks)):
        if any(check.difference for check in done.checks):
            break
        seen = look((done.original, *traces))
        checks = _placed(done.checks, seen.check) if seen.check else done.checks
        notes = (*done.notes, seen.note) if seen.note else done.notes
        done = replace(done, checks=checks, notes=notes, last_lines=(*done.last_lines, *seen.last_lines))
    return done


def _placed(checks: Sequence[Check], new: Check) -> list[Check]:
    """Instead of the one of that name, or before the noise."""
    place = [one.name for one in checks].index("noise")
    return [*checks[:place], new, *checks[place + (new.name == "noise") :]]


def _run_original(
    pair: Pair, plan: Plan, copies: tuple[Copy, Copy], folder: Path
) -> tuple[Trace, Plan, Copy, tuple[str, ...]]:
    """Its trace; how the conversion is to be run, and what is to be said of that."""
    base, dist = copies
    said: tuple[str, ...] = ()
    while True:
        try:
            return run_original(plan, base, folder / f"original{len(said)}.logs"), plan, dist, said
        except AnotherWay as other:
            plan, said = other.plan, (*said, other.said)
            base, dist = make_copies(pair, folder / f"again{len(said)}")
        except Failed as failed:
            raise _of_original(failed, pair) from None


def _run_longer(pair: Pair, plan: Plan, original: Trace, folder: Path) -> tuple[Trace, Plan]:
    """The original once more, until the rest of its training has begun; as it was run before where it bears no more."""
    more = longer(plan)
    try:
        return run_original(more, make_copies(pair, folder / "longer")[0], folder / "longer.logs"), more
    except Failed:
        return original, plan


def _not_begun(original: Trace) -> list[str]:
    if not original.later:
        return []
    return [
        f"what {', '.join(original.later)} may train had not begun after {len(original.steps)} steps, and was not "
        "compared (--steps 0 runs to the end)"
    ]


def _run_whole(pair: Pair, plan: Plan, copy: Copy, logs: Path) -> Trace:
    """The original once more, with its last batches as they are."""
    try:
        return run_original(plan, copy, logs, filled_up=False)
    except Failed as failed:
        raise _of_original(failed, pair) from None


def _of_original(failed: Failed, pair: Pair) -> DistifyError:
    return DistifyError("\n".join([f"{pair.original.path}: {failed.reason}", *failed.lines]))


def _check_input(failed: Failed, pair: Pair) -> None:
    """Raises DistifyError where the runtime itself has ended the run: it says what the user can change."""
    for line in failed.lines:
        if line.startswith("distify: "):
            raise DistifyError(f"{pair.original.path}: {line.removeprefix('distify: ')}")
