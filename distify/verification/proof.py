"""Runs a script and its conversion, and reports what came of it."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from distify_codemods import Options, Strategy
from distify_runtime.launch import gpu_count, uses_horovod

from distify.errors import DistifyError
from distify.horovod import check_installed
from distify.terminal import say
from distify.verification.comparing import run_and_compare
from distify.verification.copies import make_copies, project_of
from distify.verification.pairs import Pair, find_pair
from distify.verification.plotting import curves_of
from distify.verification.reporting import Report, put_report
from distify.verification.running import Plan

#: What is run, unless the user says otherwise; seconds for each of the runs.
RANKS, STEPS, DTYPE, TIMEOUT = 2, 20, "float64", 900.0


def proved(path: str, options: Options, args: tuple[str, ...]) -> Options | None:
    """The options with which the conversion takes the same steps; None where it does not.

    Where sharded data part from the original, and nobody has asked for them, shared forward passes are tried. What
    needs a person is left to whoever converts. Prints the reports.
    """
    pair = find_pair(path, "", options, anew=True)
    if pair.needs_person or _is_same(pair, args):
        return options
    sharded = pair.conversion is not None and pair.conversion.strategy is Strategy.SHARDED
    if not sharded or options.strategy == Strategy.SHARDED.value or options.only_sharded:
        return None
    say("sharded data part from the original: shared forward passes are tried")
    shared = replace(options, strategy=Strategy.SHARED.value)
    pair = find_pair(path, "", shared, anew=True)
    return shared if not pair.needs_person and _is_same(pair, args) else None


def _is_same(pair: Pair, args: tuple[str, ...]) -> bool:
    report = report_of(pair, args)
    put_report(report)
    return report.first is None


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
    plan = Plan(ranks, steps, dtype, args, gpus if gpus >= ranks else 0, timeout, Path(project_of(pair)))
    base, dist = make_copies(pair, folder)
    horovod = uses_horovod(dist.script)
    if horovod:
        check_installed()
    done = run_and_compare(pair, plan, (base, dist), folder, horovod)
    notes = list(done.notes)
    if done.original.filled:
        sizes = ", ".join(map(str, dict.fromkeys(done.original.filled)))
        notes.append(
            f"last batches of {sizes} do not divide by {ranks} ranks: they repeat some of their samples, and did so "
            "here in the original, too"
        )
    return Report(
        pair.original.path,
        _facts(pair, done.plan, gpus, len(done.original.steps), horovod),
        tuple(done.checks),
        tuple(notes),
        done.last_lines,
        curves_of(done.original, done.ranks) if done.ranks else None,
    )


def _facts(pair: Pair, plan: Plan, gpus: int, steps: int, horovod: bool) -> tuple[tuple[str, str], ...]:
    library = "Horovod" if horovod else "NCCL" if plan.gpus else "Gloo"
    device = f"{plan.ranks} GPUs, {library}" if plan.gpus else f"CPU, {library}"
    if gpus and not plan.gpus:
        device += f" (of {gpus} GPU{'s' * (gpus > 1)}, there is not one for each rank)"
    whole = "" if not plan.steps else f"; passes over the data end after {plan.steps_of_pass}, with their last batch"
    return (
        ("original", f"{pair.original.path}, in one process"),
        ("conversion", f"{pair.how}, on {plan.ranks} ranks ({device}, {plan.dtype})"),
        ("steps", f"{steps}{whole}"),
    )
