"""Runs a script and its conversion, and reports what came of it."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from distify_codemods import Options, Strategy
from distify_runtime.launch import gpu_count, own_random_of, uses_horovod
from distify_runtime.trace.traces import Trace

from distify.errors import DistifyError
from distify.horovod import check_installed
from distify.stale import said_if_stale
from distify.terminal import say
from distify.verification.comparing import run_and_compare
from distify.verification.copies import make_copies, project_of
from distify.verification.pairs import Pair, find_pair
from distify.verification.plotting import curves_of
from distify.verification.reporting import Report, put_report
from distify.verification.running import Plan

#: What is run, unless the user says otherwise; seconds for each of the runs.
RANKS, STEPS, DTYPE, TIMEOUT = 2, 20, "float64", 900.0


#: The rules whose changes a check shows to be right where it finds both the same. Not whether passes are shuffled anew,
#: ranks have devices of their own, or all decide alike: these runs would not always see it.
SHOWN_BY = {
    "process group": ("GROUP01",),
    "samples": ("DATA01", "DATA04", "DATA05", "BATCH01"),
    "parameters": (
        "SHARE01", "MODEL01", "MODEL02", "MODEL03", "GRAD01", "GRAD02", "ACCUM01", "GATHER01", "LOSS01",
    ),
    "noise": ("SEED01",),
    "printed figures": ("EVAL01", "METRIC01"),
    "checkpoints": ("SAVE01",),
    "files": ("OUT03",),
    "one rank prints": ("OUT01",),
}  # fmt: skip


@dataclass(frozen=True)
class Proof:
    """The options with which a conversion takes the same steps; by a rule's code, the check that shows it right."""

    options: Options
    shown_by: Mapping[str, str] = field(default_factory=dict)


def proved(path: str, options: Options, args: tuple[str, ...]) -> Proof | None:
    """How the conversion takes the same steps; None where it does not.

    Where sharded data part from the original, and nobody has asked for them, shared forward passes are tried. What
    needs a person is left to whoever converts. Prints the reports.
    """
    pair = find_pair(path, "", options, anew=True)
    if pair.needs_person:
        return Proof(options)
    if found := _proof(pair, options, args):
        return found
    sharded = pair.conversion is not None and pair.conversion.strategy is Strategy.SHARDED
    if not sharded or options.strategy == Strategy.SHARDED.value or options.only_sharded:
        return None
    say("sharded data part from the original: shared forward passes are tried")
    shared = replace(options, strategy=Strategy.SHARED.value)
    pair = find_pair(path, "", shared, anew=True)
    return None if pair.needs_person else _proof(pair, shared, args)


def _proof(pair: Pair, options: Options, args: tuple[str, ...]) -> Proof | None:
    report = report_of(pair, args)
    put_report(report)
    if report.first is not None:
        return None
    same = [check.name for check in report.checks if not check.empty]
    return Proof(options, {code: name for name in same for code in SHOWN_BY.get(name, ())})


def report_of(
    pair: Pair,
    args: tuple[str, ...],
    ranks: int = RANKS,
    steps: int = STEPS,
    dtype: str = DTYPE,
    timeout: float = TIMEOUT,
) -> Report:
    """Runs both, with these arguments of theirs. Raises DistifyError where the original fails. `timeout`: seconds."""
    if os.name == "nt":
        raise DistifyError("runs are compared on Linux or macOS")
    if importlib.util.find_spec("torch") is None:
        raise DistifyError(f"torch is not installed for {sys.executable}, with which the scripts run")
    with tempfile.TemporaryDirectory(prefix="distify-verify-") as folder:
        return _report(pair, ranks, steps, dtype, timeout, args, Path(os.path.realpath(folder)))


def _report(
    pair: Pair, ranks: int, steps: int, dtype: str, timeout: float, args: tuple[str, ...], folder: Path
) -> Report:
    gpus = gpu_count(sys.executable)
    base, dist = make_copies(pair, folder)
    plan = Plan(
        ranks, steps, dtype, args, gpus if gpus >= ranks else 0, timeout, Path(project_of(pair)),
        own_random=own_random_of(dist.script),
    )  # fmt: skip
    horovod = uses_horovod(dist.script)
    if horovod:
        check_installed()
    done = run_and_compare(pair, plan, (base, dist), folder, horovod)
    notes = [one for one in (said_if_stale(pair.converted), *done.notes) if one]
    if done.original.filled:
        sizes = ", ".join(map(str, dict.fromkeys(done.original.filled)))
        notes.append(
            f"last batches of {sizes} do not divide by {ranks} ranks: they repeat some of their samples, and did so "
            "here in the original, too"
        )
    return Report(
        pair.original.path,
        _facts(pair, done.plan, gpus, _steps_of(done.original), horovod),
        tuple(done.checks),
        tuple(notes),
        done.last_lines,
        curves_of(done.original, done.ranks) if done.ranks else None,
    )


def _steps_of(original: Trace) -> str:
    return f"{'the first ' * original.cut}{len(original.steps)}"


def _facts(pair: Pair, plan: Plan, gpus: int, steps: str, horovod: bool) -> tuple[tuple[str, str], ...]:
    library = "Horovod" if horovod else "NCCL" if plan.gpus else "Gloo"
    device = f"{plan.ranks} GPUs, {library}" if plan.gpus else f"CPU, {library}"
    if gpus and not plan.gpus:
        device += f" (of {gpus} GPU{'s' * (gpus > 1)}, there is not one for each rank)"
    cut = f"; passes over the data end after {plan.steps_of_pass}, with their last batch" if plan.steps_of_pass else ""
    cut += f", and after 1 when {plan.short_after} steps were taken" if plan.short_after and cut else ""
    return (
        ("original", f"{pair.original.path}, in one process"),
        ("conversion", f"{pair.how}, on {plan.ranks} ranks ({device}, {plan.dtype})"),
        ("steps", steps + cut),
    )
